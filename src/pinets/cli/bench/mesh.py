"""``pinets bench mesh``: the spiral convolution and the networks made of it."""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb

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
    parser.add_argument("--out", metavar="FILE", default="runs/bench-mesh.json", help="JSON (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._files import write_bytes
    from pinets.bench.mesh import FULL, QUICK, bench_mesh

    if args.threads:
        torch.set_num_threads(args.threads)
    cases = QUICK if args.quick else FULL
    which = [case for case in cases if args.only is None or args.only in str(case) or args.only == case.name]
    if not which:
        known = "\n  ".join(str(case) for case in cases)
        raise UsageError(f"--only: no case has {args.only!r} in its description; there are\n  {known}")
    bench = bench_mesh(which, seconds=args.seconds, on_row=lambda row: print(row, flush=True))
    print(f"\n{bench.summary()}")
    write_bytes(args.out, json.dumps(bench.to_json(), indent=1).encode())
    print(f"written to {args.out}")
    return 0
