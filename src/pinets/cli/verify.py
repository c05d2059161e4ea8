"""``pinets verify``: prove or refute, for every input near known ones, that a classifier keeps their class."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, add_model, low_high, positive, print_json, read_array
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor

    from pinets import Resolved

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "verify",
        run,
        summary="prove or refute that a classifier keeps its class all around inputs",
        details=(
            "For every input that the network classifies correctly, the ball of radius --eps around it is decided:\n"
            "proven, refuted by a counterexample, or open where the time does not suffice. For a run or weights, the\n"
            "inputs are the test data; for another MODEL they come from --inputs and --labels.\n\n" + MODEL_HELP
        ),
        example="""
            pinets verify mnist_ccp2_robust --eps 0.1 --images 100
            pinets verify digits.safetensors --inputs x.npy --labels y.npy --eps 0.01 --range 0,1 --out verdicts.jsonl
        """,
    )
    add_model(parser)
    parser.add_argument("--eps", metavar="E", type=float, required=True, help="radius of the ball in every element")
    parser.add_argument(
        "--images", metavar="N", type=positive, default=100, help="inputs to take, the first ones (default: 100)"
    )
    parser.add_argument("--inputs", metavar="FILE", help=".npy file with an input in each row")
    parser.add_argument("--labels", metavar="FILE", help=".npy file with the class of each input")
    parser.add_argument(
        "--range",
        metavar="LOW,HIGH",
        type=low_high,
        help="what inputs cannot exceed (default: for a run, black and white; otherwise none)",
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=10.0, help="computing time for each input (default: 10)"
    )
    parser.add_argument("--workers", metavar="N", type=positive, default=1, help="inputs to work on at a time")
    parser.add_argument(
        "--data", metavar="DIR", help="folder of the datasets (default: that of the run, or $PINETS_DATA)"
    )
    parser.add_argument("--out", metavar="FILE", help="JSON lines to write, or to continue after an interruption")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    if not 0 <= args.eps < math.inf:
        raise UsageError(f"--eps must be at least 0, got {args.eps}")
    import torch

    from pinets._resolve import resolve
    from pinets.algebra import trace, verify

    found = resolve(args.model, data_dir=args.data)
    inputs, labels, lower, upper = _read(args, found)
    network = found.network
    with torch.no_grad():  # each input in a batch of its own
        right = torch.cat([network(row[None]).argmax(1) for row in inputs]) == labels
    if not right.any():
        raise ValueError(f"none of the {len(inputs)} inputs is classified correctly, and there is nothing to prove")
    verdicts = verify(
        trace(network, inputs[:1]),
        lower[right],
        upper[right],
        labels[right],
        seconds=args.seconds,
        workers=args.workers,
        path=args.out,
        progress=True,
    )
    statuses = [verdict.status for verdict in verdicts]
    summary: dict[str, Any] = {
        "eps": args.eps,
        "inputs": len(inputs),
        "correct": int(right.sum()),
        **{status: statuses.count(status) for status in ("proven", "refuted", "open")},
        "proven_share": statuses.count("proven") / len(inputs),
        "decided_share": 1 - statuses.count("open") / len(verdicts),
        "mean_seconds": sum(verdict.seconds for verdict in verdicts) / len(verdicts),
        "covers": f"evaluation in {inputs.dtype}, sums of products in any order; not TF32 or Winograd convolutions",
    }
    if args.json:
        print_json(summary)
    else:
        for name, value in summary.items():
            print(f"{name:14} {value:.4g}" if isinstance(value, float) else f"{name:14} {value}")
    return 0


def _read(args: argparse.Namespace, found: Resolved) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and labels, and the balls around the inputs."""
    import torch

    from pinets.algebra import ball

    parameter = next(found.network.parameters())
    if args.inputs is None and args.labels is None:
        if not hasattr(found.data, "read"):
            raise UsageError(
                f"{args.model} has no dataset, unlike a run or the weights of a classifier: give --inputs and --labels"
            )
        inputs, labels = found.data.read("test", args.images)
        scale, limits = _pixels(found, inputs, args.range)
        lower, upper = (torch.empty(inputs.shape, dtype=torch.float64) for _ in range(2))
        for channel, (factor, (least, most)) in enumerate(zip(scale, limits, strict=True)):
            lower[:, channel], upper[:, channel] = ball(
                inputs[:, channel], args.eps * factor, minimum=least, maximum=most
            )
        return inputs, labels, lower, upper
    if args.inputs is None or args.labels is None:
        raise UsageError("--inputs and --labels are given together")
    inputs = torch.tensor(read_array(args.inputs)[: args.images]).to(parameter.dtype)
    labels = torch.tensor(read_array(args.labels)[: args.images])
    if labels.shape != inputs.shape[:1]:
        raise UsageError(f"{args.labels} must hold {len(inputs)} labels, has shape {tuple(labels.shape)}")
    least, most = args.range or (-float("inf"), float("inf"))
    return inputs, labels, *ball(inputs, args.eps, minimum=least, maximum=most)


def _pixels(
    found: Resolved, inputs: Tensor, limits: tuple[float, float] | None
) -> tuple[list[float], list[tuple[float, float]]]:
    """For every channel of a run's images what a pixel's range from 0 to 1 is, and what black and white are."""
    known = found.preprocessing if isinstance(found.preprocessing, dict) else {}
    if "mean" not in known or "std" not in known:
        raise UsageError("eps is in pixels from 0 to 1, and the run's inputs are no normalised images: give --inputs")
    least, most = limits or (0.0, 1.0)
    pairs = list(zip(known["mean"], known["std"], strict=True))
    return [1 / std for _, std in pairs], [((least - mean) / std, (most - mean) / std) for mean, std in pairs]
