"""The options of a plan for encrypted inference, and the plan that they ask for."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import gigabytes, low_high, positive, read_array, shape
from pinets.cli.parser import Parser, UsageError

if TYPE_CHECKING:
    from pinets.encrypted import Plan, Preparation, Source

__all__ = ["add_planning", "make_plan", "planner_options", "planning_source"]

_LARGEST = 1e38  # limit of --range: inputs are drawn in single precision


def add_planning(parser: Parser, inputs: str) -> None:
    parser.add_argument("source", metavar="RUN", help="a run folder, or a model")
    parser.add_argument("--input", metavar="SHAPE", type=shape, help="shape of one input without the batch, as 3,32,32")
    parser.add_argument("--data", metavar="DIR", help="where datasets are (default: $PINETS_DATA)")
    parser.add_argument("--range", metavar="LOW,HIGH", type=_range, help="of a model's inputs (default: -1,1)")
    parser.add_argument(
        "--calibrate", metavar="FILE", help="typical inputs as .npy, instead of those of training or --range"
    )
    parser.add_argument(
        "--packing",
        choices=["auto", "latency", "throughput", "grid"],
        default="auto",
        help="one input per ciphertext, one feature of many inputs, or channels x height x width "
        "(default: what is fastest for --inputs)",
    )
    parser.add_argument("--inputs", type=positive, help=f"how many there will be (default: {inputs})")
    parser.add_argument(
        "--precision",
        type=float,
        default=1e-4,
        help="largest deviation, relative to the largest output (default: 1e-4)",
    )
    parser.add_argument("--ring", type=positive, help="this ring size, instead of the smallest that works")
    parser.add_argument(
        "--room",
        choices=["range", "inputs"],
        default="range",
        help="numbers must fit for every input in the range, or for typical inputs with a margin (default: range)",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="accept only what is proven to fit, and bound the deviation, for every input",
    )
    parser.add_argument("--memory", metavar="GB", type=_bytes, help="the server's (default: what is free)")


def make_plan(args: argparse.Namespace, folder: Path | None) -> Plan:
    """Plan, and write the client's and the server's part into a folder if there is one."""
    from pinets.encrypted import write_plan, write_preparation

    source, preparation = planning_source(args)
    plan, circuit = source.plan(inputs=args.inputs or 1, **planner_options(args))
    if folder is not None:
        write_plan(plan, circuit, client=folder / "client", server=folder / "server")
        for side in ("client", "server"):
            write_preparation(preparation, folder / side)
    return plan


def planner_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the planner."""
    rings = {"rings": (args.ring,)} if args.ring else {}
    asked = {"packing": args.packing, "precision": args.precision, "proof": args.prove, "room": args.room}
    return {**asked, "memory": args.memory, **rings}


def planning_source(args: argparse.Namespace) -> tuple[Source, Preparation]:
    """The network that RUN stands for, with inputs to plan with and to test with, and how inputs are prepared."""
    import torch

    from pinets._resolve import resolve
    from pinets.encrypted import Preparation, draw_source, split_source

    found = resolve(args.source, data_dir=args.data)
    is_run = found.recipe is not None  # of a run, or of trained weights
    if args.range and (is_run or args.calibrate):
        other = "--calibrate" if args.calibrate else "a run folder"
        raise UsageError(f"--range is for a model alone: {other} brings inputs to plan with, leave one of them out")
    typical = torch.from_numpy(read_array(args.calibrate)).float() if args.calibrate else None
    if is_run:
        from pinets.tasks import ClassificationRecipe

        if not isinstance(found.recipe, ClassificationRecipe):
            raise UsageError(f"{args.source} is not the run of a classifier: there are no images or clips to plan with")
        preparation = Preparation.of(found.classes, found.preprocessing)
        if typical is None:
            return split_source(found.network, found.data.read), preparation
        source = draw_source(found.network, tuple(found.example(args.input).shape[1:]), typical=typical)
        # the dataset is read by those who test, so that a plan does not need it
        return replace(source, held_out=lambda count: found.data.read("test", count)), preparation
    if found.estimator is not None and typical is None and args.range is None:
        typical = torch.from_numpy(found.estimator.sample_).float()  # rows of its training, encoded
    low, high = args.range or (-1.0, 1.0)
    size = tuple(found.example(args.input).shape[1:])
    return draw_source(found.network, size, low, high, typical=typical), Preparation()


def _bytes(text: str) -> int:
    """Read gigabytes."""
    return int(gigabytes(text) * 1e9)


def _range(text: str) -> tuple[float, float]:
    low, high = low_high(text)
    if max(-low, high) > _LARGEST:
        raise argparse.ArgumentTypeError(f"numbers must be finite and at most {_LARGEST:g} in size, got {text!r}")
    return low, high
