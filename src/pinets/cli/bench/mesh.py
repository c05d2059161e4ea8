"""``pinets bench mesh``: the spiral convolution and the networks made of it."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, choose, finish, show, use_threads
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "mesh",
        run,
        summary="compare the spiral convolution with its published formulation, and orders with each other",
        details=(
            "Forward and backward of one convolution against advanced indexing, reshape and linear, in time and\n"
            "memory; a training step of networks of order 2 and 4 against the plain one. ratio = ours / baseline."
        ),
        example="""
            pinets bench mesh --quick
            pinets bench mesh --only convolution --seconds 60 --threads 2
        """,
    )
    parser.add_argument("--quick", action="store_true", help="a small mesh and batch")
    parser.add_argument("--only", metavar="TEXT", help="the cases whose description has this text, such as 'memory'")
    parser.add_argument("--seconds", type=positive, default=20, help="how long to time each case (default: 20)")
    parser.add_argument("--threads", type=positive, help="threads for torch (default: its own choice)")
    add_out(parser, "mesh")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.mesh import FULL, QUICK, bench_mesh

    use_threads(args.threads)
    which = choose(QUICK if args.quick else FULL, args.only, lambda case: f"{case.name}: {case}")
    return finish(bench_mesh(which, seconds=args.seconds, on_row=show), args.out)
