"""What several verbs share: MODEL, the shape of its input, and JSON."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from typing import Any

from pinets.cli.parser import Parser, UsageError

__all__ = [
    "MODEL_HELP",
    "add_model",
    "file_ending_in",
    "gigabytes",
    "indices",
    "low_high",
    "positive",
    "print_json",
    "read_array",
    "shape",
    "share",
]

MODEL_HELP = """MODEL is one of
  an expression     "Sequential(CCP(16, 8, rank=8, order=2), Linear(8, 4))", of
                    layers of pinets and torch.nn, with random weights (always
                    the same); operators are given as op=Conv2d(kernel_size=3)
  a model's name    resnet50, or with arguments "resnet18_cifar(width=16)";
                    pinets list models shows them
  trained weights   mnist_ccp4; pinets list weights shows them
  a name in Python  package.module:name or path/to/file.py:name, a module or a
                    function that makes one; the file is executed, so name your
                    own; inside an expression as in to_pinet(nets.py:resnet)
  a file            model.safetensors, as pinets.spec.save writes it, or an
                    estimator's polynomial, houses.skops of skops.io.dump
  a run folder      runs/mnist_ccp4-small/seed-0, with its weights"""


def add_model(parser: Parser) -> None:
    """Add MODEL, for :func:`pinets.resolve`, and ``--input``."""
    parser.add_argument(
        "model", metavar="MODEL", help="expression, name, file.py:name, file.safetensors, or a run folder"
    )
    parser.add_argument(
        "--input",
        metavar="SHAPE",
        type=shape,
        help="shape of one input without the batch, as 16 or 3,32,32 (default: the run's, the registered model's, or "
        "what the first operator takes)",
    )


def shape(text: str) -> tuple[int, ...]:
    """Read a shape.

    >>> shape("3,32,32"), shape("16")
    ((3, 32, 32), (16,))
    """
    sizes = re.split("[,x]", text)
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"expected a shape such as 16 or 3,32,32, got {text!r}")
    return tuple(map(int, sizes))


def indices(text: str) -> tuple[int, ...]:
    """Read numbers from 0 on.

    >>> indices("0,10,20")
    (0, 10, 20)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers from 0 on, as 0,10,20; got {text!r}")
    return tuple(map(int, parts))


def share(text: str) -> float:
    """Read a number from 0 to 1.

    >>> share("0.7")
    0.7
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return value


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def gigabytes(text: str) -> float:
    """Read a positive number."""
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0 < size < 1e9:
        raise argparse.ArgumentTypeError(f"expected a positive number of gigabytes, got {text!r}")
    return size


def low_high(text: str) -> tuple[float, float]:
    """Read two numbers, the smaller one first.

    >>> low_high("-1,1")
    (-1.0, 1.0)
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 1.0, 0.0
    if not low < high:
        raise argparse.ArgumentTypeError(
            f"expected LOW,HIGH such as 0,1: the first number must be the smaller one; got {text!r}"
        )
    return low, high


def file_ending_in(ending: str) -> Callable[[str], str]:
    """Read the name of a file to write. It must end in the given ending, so that a slip replaces no other file.

    >>> file_ending_in(".html")("runs/report.html")
    'runs/report.html'
    """

    def read(text: str) -> str:
        if not text.lower().endswith(ending):
            raise argparse.ArgumentTypeError(f"expected a file name that ends in {ending}, got {text!r}")
        return text

    return read


def read_array(path: str) -> Any:
    """An array of numbers from a .npy file, from which nothing is ever executed."""
    import numpy as np

    from pinets.data import DataError, MissingDataError
    from pinets.data.formats.npy import open_array

    try:
        return np.array(open_array(path))
    except (DataError, MissingDataError) as error:
        raise UsageError(str(error)) from error


def print_json(content: Any) -> None:
    """Print as JSON; numbers that are not finite, which JSON does not have, as null."""
    print(json.dumps(_finite(content), indent=2, ensure_ascii=False))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
