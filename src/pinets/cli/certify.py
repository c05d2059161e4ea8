"""``pinets certify``: is this network a polynomial, of which degree, and what can it give over a box of inputs?"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, add_model, positive, print_json, read_array
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor

    from pinets.algebra import Certificate, Traced

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "certify",
        run,
        summary="tell whether a network is a polynomial, of which degree, and bound its outputs",
        details=(
            f"{MODEL_HELP}\n\n"
            "With --box, bounds that hold for every input of the box, rounding in single precision included, and how "
            "fast each output changes there at most: |f(x) - f(y)| <= rate * max |x - y|.\n\n"
            "exit codes: 0 it is a polynomial, 1 it is not, 2 there is no answer"
        ),
        example="""
            pinets certify "CCP(16, 4, rank=8, order=3)"
            pinets certify "Sequential(CCP(16, 8, rank=8, order=2), MaxPool1d(2))"
            pinets certify networks.py:resnet --input 3,32,32 --json
            pinets certify "CCP(3, 2, rank=8, order=3)" --box -1,1 --boxes 64
            pinets certify digits.safetensors --box 0.01 --around images.safetensors
        """,
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print the certificate as JSON")
    parser.add_argument(
        "--box",
        metavar="LOW,HIGH",
        type=box,
        help="bound the outputs for inputs from LOW to HIGH; with --around, for those within a radius",
    )
    parser.add_argument(
        "--around", metavar="FILE", help=".npy file, or .safetensors file with one tensor; an input in each row"
    )
    parser.add_argument("--boxes", metavar="N", type=positive, default=1, help="parts to divide the box into, at most")


def box(text: str) -> tuple[float, ...]:
    """Read ``-1,1`` or ``0.01``.

    >>> box("-1,1"), box("0.01")
    ((-1.0, 1.0), (0.01,))
    """
    try:
        ends = tuple(map(float, text.split(",")))
    except ValueError:
        ends = ()
    if len(ends) not in (1, 2) or not all(map(math.isfinite, ends)) or sorted(ends) != list(ends):
        raise argparse.ArgumentTypeError(f"expected LOW,HIGH such as -1,1, or a radius such as 0.01; got {text!r}")
    return ends


def run(args: argparse.Namespace) -> int:
    if args.box is None and (args.around or args.boxes > 1):
        raise UsageError("--around and --boxes say more about a --box, which is missing")
    traced, certificate = _certified(args)
    found: dict[str, Any] = {}
    if args.box is not None and traced is not None and certificate.polynomial:
        with _without_answer():
            found["boxes"] = _bound(traced, *_box(args, traced.example[0]), args.boxes)
    if args.json:
        print_json({**asdict(certificate), **found})
    else:
        print(certificate)
        for number, rows in enumerate(found.get("boxes", ())):
            _print(number, rows)
    return 0 if certificate.polynomial else 1


def _certified(args: argparse.Namespace) -> tuple[Traced | None, Certificate]:
    """The traced network, if it can be traced, and its certificate."""
    from pinets._resolve import resolve
    from pinets.algebra import Certificate, TraceError, certify, trace

    with _without_answer():
        try:
            found = resolve(args.model)
            traced = trace(found.network, found.example(args.input))
            return traced, certify(traced)
        except TraceError as error:
            return None, Certificate(False, None, error.violations)


@contextmanager
def _without_answer() -> Iterator[None]:
    """What fails inside ends with exit code 2: 1 means only "not a polynomial"."""
    try:
        yield
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise UsageError(str(error)) from error


def _box(args: argparse.Namespace, example: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    from pinets.algebra import ball

    if args.around is None:
        if len(args.box) == 1:
            raise UsageError("a single number for --box is a radius, around what --around names; or give LOW,HIGH")
        low, high = args.box
        return torch.full(example.shape, low, dtype=torch.float64), torch.full(example.shape, high, dtype=torch.float64)
    if len(args.box) == 2 or args.box[0] < 0:
        raise UsageError("with --around, --box is a radius: one number that is not negative")
    inputs = _read_inputs(args.around)
    if inputs.shape[1:] != example.shape[1:]:
        raise UsageError(
            f"{args.around} holds inputs of shape {tuple(inputs.shape[1:])}, the network takes "
            f"{tuple(example.shape[1:])}"
        )
    return ball(inputs, args.box[0])


def _read_inputs(path: str) -> Tensor:
    from pinets._storage import read_tensors

    if path.endswith(".npy"):
        import torch

        return torch.tensor(read_array(path).astype("float64"))
    try:
        tensors, _ = read_tensors(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--around takes a .npy or a .safetensors file: {error}") from error
    if len(tensors) != 1:
        raise UsageError(f"{path} must hold one tensor, has {', '.join(tensors) or 'none'}")
    return next(iter(tensors.values()))


def _bound(traced: Traced, lower: Tensor, upper: Tensor, boxes: int) -> list[list[dict[str, float]]]:
    """For every box and output: the bounds, those of plain intervals, and the rate of change."""
    from pinets.algebra import bounds, interval_bounds, lipschitz

    ours, plain = bounds(traced, lower, upper, boxes=boxes), interval_bounds(traced, lower, upper)
    columns = {"lower": ours.lower, "upper": ours.upper, "plain_lower": plain.lower, "plain_upper": plain.upper}
    columns["rate"] = lipschitz(traced, lower, upper)
    rows = zip(*(column.reshape(len(column), -1).tolist() for column in columns.values()), strict=True)
    return [[dict(zip(columns, output, strict=True)) for output in zip(*row, strict=True)] for row in rows]


def _print(number: int, rows: list[dict[str, float]]) -> None:
    print(f"\nbox {number}, output: from, to (plain intervals), rate of change")
    for output, row in enumerate(rows):
        print(
            f"{output:6}: {row['lower']:12.5g} {row['upper']:12.5g}   ({row['plain_lower']:.5g} to "
            f"{row['plain_upper']:.5g})   {row['rate']:.5g}"
        )
