"""Changes of a file: of its bytes, and of the JSON in it."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

__all__ = ["mutate"]

NUMBERS = (0, 1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63 - 1, 2**64 - 1)
VALUES = (None, True, -1, 0, 3, 10**9, 10**30, 1e400, -1.5, float("nan"), "", "x" * 300, "0", "Π\0", [], {}, [[[]]])


def mutate(content: bytes, random: Random) -> bytes:
    """The content with something wrong."""
    if content[:1] in (b"{", b"[") and content.count(b"\n{") == 0 and random.random() < 0.7:  # JSON, not lines of it
        return _dump(mutate_json(json.loads(content), random), random)
    if content[8:9] == b"{" and random.random() < 0.5:  # safetensors: the header's length, and the header
        (length,) = struct.unpack("<Q", content[:8])
        header = _dump(mutate_json(json.loads(content[8 : 8 + length]), random), random)
        return struct.pack("<Q", len(header)) + header + content[8 + length :]
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        content = random.choice(MUTATIONS)(content, random)
    return content


def mutate_json(value: Any, random: Random) -> Any:
    """Content with one of its parts replaced, left out, added or nested."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        inner = mutate_json(value[key], random)
        kind = random.random()
        if kind < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key if kind < 0.9 else key + "s": inner}
    if isinstance(value, list) and value and random.random() < 0.8:
        place = random.randrange(len(value))
        return (
            value[:place] + [mutate_json(value[place], random)] * random.choice((0, 1, 1, 1, 1000)) + value[place + 1 :]
        )
    if isinstance(value, str) and value[:1] == "{" and random.random() < 0.8:  # JSON inside of JSON
        return json.dumps(mutate_json(json.loads(value), random))
    if isinstance(value, str) and value and random.random() < 0.5:
        return flip(value.encode(), random).decode(errors="replace")
    return random.choice(VALUES)


def _dump(value: Any, random: Random) -> bytes:
    text = json.dumps(value)
    if random.random() < 0.02:
        text = "[" * 100_000 + text
    return text.encode()


def flip(content: bytes, random: Random) -> bytes:
    if not content:
        return b"\0"
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def early_flip(content: bytes, random: Random) -> bytes:
    """Where formats have their headers."""
    return flip(content[:128], random) + content[128:]


def cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def lengthen(content: bytes, random: Random) -> bytes:
    return content + random.randbytes(random.choice((1, 8, 1000)))


def insert_number(content: bytes, random: Random) -> bytes:
    packed = struct.pack(random.choice("<>") + "Q", random.choice(NUMBERS))
    packed = random.choice((packed[:4], packed[4:], packed[:2], packed))
    place = random.randrange(min(len(content), random.choice((64, 1 << 30))) + 1)
    return content[:place] + packed + content[place + len(packed) :]


def repeat(content: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(content) + 1) for _ in "ab")
    return content[:end] + content[start:end] + content[end:]


def leave_out(content: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(content) + 1) for _ in "ab")
    return content[:start] + content[end:]


def replace_digits(content: bytes, random: Random) -> bytes:
    """Another number in place of one that is written out."""
    places = [place for place, byte in enumerate(content[:100_000]) if 48 <= byte < 58]
    if not places:
        return flip(content, random)
    place = random.choice(places)
    number = random.choice((b"-1", b"99999999999999999999", b"1e999", b"0", b"nan", b"", b"7" * 5000))
    return content[:place] + number + content[place + 1 :]


MUTATIONS = (flip, flip, early_flip, cut, lengthen, insert_number, insert_number, repeat, leave_out, replace_digits)
