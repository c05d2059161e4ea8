"""``pinets bench resnet``: residual Π-nets against their baselines."""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb

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
    parser.add_argument("--out", metavar="FILE", default="runs/bench-resnet.json", help="JSON (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._files import write_bytes
    from pinets.bench.resnet import FULL, QUICK, bench_resnet

    if args.threads:
        torch.set_num_threads(args.threads)
    which = [case for case in (QUICK if args.quick else FULL) if args.only is None or args.only in str(case)]
    if not which:
        known = "\n  ".join(str(case) for case in FULL)
        raise UsageError(f"--only: no case has {args.only!r} in its description; there are\n  {known}")
    bench = bench_resnet(
        which, seconds=args.seconds, channels_last=not args.channels_first, on_row=lambda row: print(row, flush=True)
    )
    print(f"\n{bench.summary()}")
    write_bytes(args.out, json.dumps(bench.to_json(), indent=1).encode())
    print(f"written to {args.out}")
    return 0
