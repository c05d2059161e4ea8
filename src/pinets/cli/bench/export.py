"""``pinets bench export``: exported networks in onnxruntime against eager torch."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, choose, finish, show, use_threads
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "export",
        run,
        summary="compare exported networks in onnxruntime with eager torch",
        details="Inference with folded batch norms, same inputs and threads. The outputs must agree to 1e-4.",
        example="""
            pinets bench export --quick
            pinets bench export --only ccp4 --seconds 30 --threads 2
        """,
    )
    parser.add_argument("--quick", action="store_true", help="two small networks")
    parser.add_argument("--only", metavar="TEXT", help="the cases whose description has this text, such as 'batch 1'")
    parser.add_argument("--seconds", type=positive, default=10, help="how long to time each case (default: 10)")
    parser.add_argument("--threads", type=positive, help="threads for both (default: torch's own choice)")
    add_out(parser, "export")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.export import FULL, QUICK, bench_export

    use_threads(args.threads)
    which = choose(QUICK if args.quick else FULL, args.only)
    return finish(bench_export(which, seconds=args.seconds, on_row=show), args.out)
