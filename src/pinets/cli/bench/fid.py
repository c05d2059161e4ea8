"""``pinets bench fid``: images per second through the Inception network."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, finish, show, use_threads
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "fid",
        run,
        summary="compare ways to run the Inception network of FID with a plain loop",
        details="Images of 32x32 pixels, resized and run through the network with random weights, in turn.",
        example="""
            pinets bench fid --quick
            pinets bench fid --images 128 --batch 64 --seconds 300
        """,
    )
    parser.add_argument("--quick", action="store_true", help="few images, nothing compiled")
    parser.add_argument("--images", type=positive, help="in a round (default: 32, with --quick 8)")
    parser.add_argument("--batch", type=positive, default=32, help="images at a time (default: %(default)s)")
    parser.add_argument("--seconds", type=positive, help="start no further round then (default: 240, with --quick 20)")
    parser.add_argument("--threads", type=positive, help="threads for torch (default: its own choice)")
    add_out(parser, "fid")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.fid import FULL, QUICK, bench_fid

    use_threads(args.threads)
    bench = bench_fid(
        QUICK if args.quick else FULL,
        images=args.images or (8 if args.quick else 32),
        batch=args.batch,
        seconds=args.seconds or (20 if args.quick else 240),
    )
    for row in bench.rows:
        show(row)
    return finish(bench, args.out)
