"""Hostile expressions, in files of strangers and on the command line."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from unittest import mock

import torch

from pinets import _limits, resolve, spec
from pinets._storage import write_tensors
from tests.attack.guard import survive
from tests.attack.tally import Tally, cases

__all__ = ["attack"]

NAMES = (*("CCP", "NCP", "NCPSkip", "PowerSum", "Polynomial", "Step", "Sequential", "to_pinet"), *sorted(spec.names()))
KEYWORDS = (
    "rank",
    "order",
    "op",
    "depths",
    "width",
    "num_classes",
    "norm",
    "bias",
    "size",
    "num_layers",
    "kernel_size",
)
NUMBERS = ("0", "1", "2", "4", "8", "-1", "0.5", "1e400", "1000", "100000", "1000000000", str(10**30))
OTHERS = (
    "None",
    "True",
    "'x'",
    "b'x'",
    "...",
    "lambda: 0",
    "x",
    "nn.Linear",
    "pinets.CCP",
    "__import__",
    "2 ** 9",
    "[]",
    "()",
)
DEEP = ("-", "(", "[", "not ", "~", "Sequential(", "nn.", "1+", "{0:", "x.", "x[", "f(", "*", "'", "lambda:", "await ")


def attack(seconds: float, seed: int) -> Tally:
    """An expression is built within limits, or refused with a reason."""
    tally = Tally()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.multiple(_limits, CALLS=3000, MODULES=1500, EVENTS=10**6, SECONDS=5.0, NUMBERS=10**6),  # soon
        mock.patch.object(spec, "NUMBERS", 10**6),
    ):
        path = Path(folder, "m.safetensors")
        for name, random in cases(seconds, seed):
            text = deep(random) if random.random() < 0.2 else call(random, depth=0)
            shown = f"{name}, {text[:150]!r}"
            write_tensors(path, {"weight": torch.zeros(3, 2)}, {"model": text})
            survive(tally, f"{shown} in a file", lambda: spec.load(path), told=(path.name,))
            if not any(number in text for number in NUMBERS[-4:]):  # what a user types may be large
                survive(
                    tally,
                    f"{shown} on the command line",
                    lambda t=text: resolve(t),
                    told=("MODEL", ".safetensors", "there is no"),
                )
    return tally


def call(random: Random, depth: int) -> str:
    arguments = [value(random, depth) for _ in range(random.choice((0, 1, 2, 2, 3)))]
    arguments += [f"{random.choice(KEYWORDS)}={value(random, depth)}" for _ in range(random.choice((0, 0, 1, 2)))]
    return f"{random.choice(NAMES[:8] if random.random() < 0.5 else NAMES)}({', '.join(arguments)})"


def value(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.5:
        return random.choice(NUMBERS)
    if kind < 0.65 and depth < 4:
        return call(random, depth + 1)
    if kind < 0.8:
        return f"[{', '.join(random.choice(NUMBERS) for _ in range(random.choice((1, 4, 300))))}]"
    return random.choice(OTHERS)


def deep(random: Random) -> str:
    """Nested, or long, beyond what a model needs."""
    start, count = random.choice(DEEP), random.choice((90, 150, 350, 975, 5000, 50_000, 200_000))
    end = {"(": ")", "[": "]", "Sequential(": ")", "{0:": "}", "x[": "]", "f(": ")"}.get(start, "")
    inner = f"{start * count}1{end * count if random.random() < 0.7 else ''}"
    return inner if random.random() < 0.3 else f"Linear(3, {inner})"
