"""``pinets bench fid``: images per second through the Inception network."""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import positive
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
    parser.add_argument("--out", metavar="FILE", default="runs/bench-fid.json", help="JSON (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._files import write_bytes
    from pinets.bench.fid import FULL, QUICK, bench_fid

    if args.threads:
        torch.set_num_threads(args.threads)
    bench = bench_fid(
        QUICK if args.quick else FULL,
        images=args.images or (8 if args.quick else 32),
        batch=args.batch,
        seconds=args.seconds or (20 if args.quick else 240),
    )
    for row in bench.rows:
        print(row)
    write_bytes(args.out, json.dumps(bench.to_json(), indent=1).encode())
    print(f"\nwritten to {args.out}")
    return 0
