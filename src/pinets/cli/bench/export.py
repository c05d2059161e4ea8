"""``pinets bench export``: exported networks in onnxruntime against eager torch."""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb

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
    parser.add_argument("--out", metavar="FILE", default="runs/bench-export.json", help="JSON (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._files import write_bytes
    from pinets.bench.export import FULL, QUICK, bench_export

    if args.threads:
        torch.set_num_threads(args.threads)
    which = [case for case in (QUICK if args.quick else FULL) if args.only is None or args.only in str(case)]
    if not which:
        known = "\n  ".join(str(case) for case in FULL)
        raise UsageError(f"--only: no case has {args.only!r} in its description; there are\n  {known}")
    bench = bench_export(which, seconds=args.seconds, on_row=lambda row: print(row, flush=True))
    print(f"\n{bench.summary()}")
    write_bytes(args.out, json.dumps(bench.to_json(), indent=1).encode())
    print(f"written to {args.out}")
    return 0
