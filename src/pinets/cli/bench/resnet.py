"""``pinets bench resnet``: residual Π-nets against their baselines."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, choose, finish, show, use_threads
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "resnet",
        run,
        summary="compare residual Π-nets with their baselines in time and memory",
        details=(
            "Prodpoly-ResNet [2, 2, 1, 1] with ResNet18 at CIFAR's size, Prodpoly-ResNet50 with ResNet50 at\n"
            "ImageNet's, and one block of each with the baseline's in memory. ratio = ours / baseline."
        ),
        example="""
            pinets bench resnet --quick
            pinets bench resnet --only cifar --seconds 60
        """,
    )
    parser.add_argument("--quick", action="store_true", help="small batches, nothing compiled")
    parser.add_argument("--only", metavar="TEXT", help="the cases whose description has this text, such as 'memory'")
    parser.add_argument("--seconds", type=positive, default=30, help="how long to time each case (default: 30)")
    parser.add_argument("--channels-first", action="store_true", help="images with the channels first in memory")
    parser.add_argument("--threads", type=positive, help="threads for torch (default: its own choice)")
    add_out(parser, "resnet")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.resnet import FULL, QUICK, bench_resnet

    use_threads(args.threads)
    which = choose(QUICK if args.quick else FULL, args.only)
    bench = bench_resnet(which, seconds=args.seconds, channels_last=not args.channels_first, on_row=show)
    return finish(bench, args.out)
