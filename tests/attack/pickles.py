"""Hostile pickles: random programs of the unpickler's own operations."""

from __future__ import annotations

import reprlib
import struct
import tempfile
from pathlib import Path
from random import Random

from pinets.data.formats.pickles import load_arrays
from tests.attack.guard import survive
from tests.attack.tally import Tally, cases

__all__ = ["attack"]

GLOBALS = (
    *("numpy dtype", "numpy ndarray", "numpy.core.multiarray _reconstruct", "numpy.core.multiarray scalar"),
    *("numpy.core.numeric _frombuffer", "_codecs encode", "__builtin__ bytes", "numpy._core.numeric _frombuffer"),
    *("os system", "builtins eval", "builtins getattr", "numpy.core.multiarray frombuffer", "copyreg _reconstructor"),
    *("tests.attack.pickles trap", "tests.attack.pickles trap"),
)
TEXTS = (b"latin1", b"u1", b"<f8", b"O", b"S1000000000", b"V", b"(1000,1000)u1", b"C", b"F", b"b", b"|", b"x" * 5000)
PLAIN = (
    b"N",
    b"\x88",
    b"\x89",
    b"K\x00",
    b"K\x03",
    b"M\xe8\x03",
    b"J\xff\xff\xff\x7f",
    b"J\xff\xff\xff\xff",
    b")",
    b"]",
    b"}",
    b"\x8f",
)
BUILD = (
    b"a",
    b"e",
    b"s",
    b"u",
    b"t",
    b"\x85",
    b"\x86",
    b"\x87",
    b"R",
    b"b",
    b"2",
    b"0",
    b"1",
    b"(",
    b"d",
    b"l",
    b"\x91",
    b"\x90",
    b"\x81",
    b"o",
)


trapped: list[object] = []


def trap(*arguments: object) -> None:
    """A function that no pickle may reach."""
    trapped.append(arguments)


def attack(seconds: float, seed: int) -> Tally:
    """A pickle gives plain arrays or is refused; nothing runs, whatever it asks for."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batch")
        for name, random in cases(seconds, seed):
            program = random.choice((walk, walk, bomb, call))(random)
            path.write_bytes(b"\x80\x04" + program + b".")
            survive(tally, f"{name}, {program[:60]!r}", lambda: reprlib.repr(load_arrays(path)), told=(path.name,))
            tally.check(not trapped, f"{name}, {program[:60]!r}: called a function with {trapped!r}")
            trapped.clear()
    return tally


def walk(random: Random) -> bytes:
    """Some operations, most of which find on the stack what they need."""
    return b"".join(step(random) for _ in range(random.choice((5, 20, 20, 100))))


def step(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.25:
        return random.choice(PLAIN)
    if kind < 0.5:
        return random.choice(BUILD)
    if kind < 0.6:
        text = random.choice(TEXTS)
        return random.choice((b"T", b"X", b"B")) + struct.pack("<I", len(text)) + text
    if kind < 0.7:
        return b"c" + random.choice(GLOBALS).replace(" ", "\n").encode() + b"\n"
    if kind < 0.8:
        return random.choice(
            (b"\x94", b"q" + bytes([random.randrange(4)]), b"r" + struct.pack("<I", random.choice((1, 2**31 - 1))))
        )
    if kind < 0.95:
        return b"h" + bytes([random.randrange(4)])
    return random.choice((array, call))(random)


def call(random: Random) -> bytes:
    """A function by its name, with an argument."""
    name = random.choice(GLOBALS).replace(" ", "\n").encode()
    return b"c" + name + b"\n" + text(random.choice(TEXTS)) + b"\x85R"


def array(random: Random) -> bytes:
    """An array as NumPy pickles it, with sizes that may be wrong."""
    size = random.choice((0, 1, 3, 100, 2**31 - 1, -1))
    dtype = b"cnumpy\ndtype\n(" + text(random.choice((b"u1", b"f8", b"S9"))) + b"K\x00K\x01tR"
    return (
        b"cnumpy.core.numeric\n_frombuffer\n(" + text(bytes(random.choice((0, 3, 100)))) + dtype
        + b"J" + struct.pack("<i", size) + b"\x85" + text(b"C") + b"tR"
    )  # fmt: skip


def text(content: bytes) -> bytes:
    return b"T" + struct.pack("<I", len(content)) + content


def bomb(random: Random) -> bytes:
    """Something small that is used again and again, in what uses it again and again."""
    inner = random.choice((b"K\x01", b"]", b"X\x05\x00\x00\x00aaaaa", array(random), text(b"a" * 5000)))
    levels = random.choice((3, 12, 40, 200, 100_000))
    width = random.choice((1, 2, 10, 50))
    if levels == 100_000:
        return inner + random.choice((b"\x85", b"\x85", b"](\x85e")) * levels
    program = inner + b"\x94"
    for level in range(levels):
        use = b"h" + bytes([level]) if level < 256 else b"j" + struct.pack("<I", level)
        program += random.choice(
            (b"](" + use * width + b"e", b"(" + use * width + b"t", b"}(" + (b"K\x01" + use) * width + b"u")
        )
        program += b"\x94"
    return program
