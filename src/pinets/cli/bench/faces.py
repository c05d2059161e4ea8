"""``pinets bench faces``: searching a gallery, and embedding a face."""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "faces",
        run,
        summary="search a gallery at the speed of matrix products, and embed faces beside the baseline",
        details=(
            "3,530 probes against a synthetic gallery: the best of every probe and the exact tail of all scores, "
            "beside the matrix products alone and faiss's flat index (if installed). Prodpoly-IR-ResNet50 beside "
            "IR-ResNet50."
        ),
        example="""
            pinets bench faces --quick
            pinets bench faces --gallery 1000000 --only search --seconds 300
        """,
    )
    parser.add_argument("--quick", action="store_true", help="a gallery of 20,000")
    parser.add_argument("--gallery", type=positive, metavar="N", help="rows of the gallery (default: 100,000)")
    parser.add_argument("--only", metavar="TEXT", help="the cases whose description has this text, such as 'latency'")
    parser.add_argument("--seconds", type=positive, default=60, help="how long to time each case (default: 60)")
    parser.add_argument("--threads", type=positive, help="threads for torch (default: its own choice)")
    parser.add_argument("--out", metavar="FILE", default="runs/bench-faces.json", help="JSON (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    import torch

    from pinets._files import write_bytes
    from pinets.bench.faces import QUICK, SMALL, SearchCase, bench_faces

    if args.threads:
        torch.set_num_threads(args.threads)
    which = list(QUICK if args.quick else SMALL)
    if args.gallery is not None:
        which = [replace(case, gallery=args.gallery) if isinstance(case, SearchCase) else case for case in which]
    which = [case for case in which if args.only is None or args.only in str(case)]
    if not which:
        raise UsageError(f"--only: no case has {args.only!r} in its description; there are search and latency")
    bench = bench_faces(which, seconds=args.seconds, on_row=lambda row: print(row, flush=True))
    print(f"\n{bench.summary()}")
    write_bytes(args.out, json.dumps(bench.to_json(), indent=1).encode())
    print(f"written to {args.out}")
    return 0
