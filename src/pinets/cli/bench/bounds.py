"""``pinets bench bounds``: how tight sound bounds are on digits."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, choose, finish, show
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "bounds",
        run,
        summary="compare sound bounds with plain intervals, and certified with attacked accuracy",
        details=(
            "CCP, NCP and NCP-Skip of order 3 and 4 are trained on MNIST; their outputs are bounded over balls of\n"
            "1/255 to 8/255 around test images. tighter = width of plain intervals / width of ours."
        ),
        example="""
            pinets bench bounds --quick
            pinets bench bounds --samples 100 --data data
            pinets bench bounds --only "order 4" --data data
        """,
    )
    parser.add_argument("--quick", action="store_true", help="one network, one epoch, ten images")
    parser.add_argument(
        "--only", metavar="TEXT", help="the networks with this text in their description, such as 'NCPSkip'"
    )
    parser.add_argument("--samples", metavar="N", type=positive, help="test images (default: 100, with --quick 10)")
    parser.add_argument("--epochs", metavar="N", type=positive, help="of training (default: 4, with --quick 1)")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    add_out(parser, "bounds")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.bounds import FULL, QUICK, bench_bounds

    bench = bench_bounds(
        choose(QUICK if args.quick else FULL, args.only),
        data_dir=args.data,
        samples=args.samples or (10 if args.quick else 100),
        epochs=args.epochs or (1 if args.quick else 4),
        on_row=show,
    )
    return finish(bench, args.out)
