"""``pinets bench faces``: searching a gallery, and embedding a face."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, choose, finish, show, use_threads
from pinets.cli.parser import Verbs, add_verb

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
    add_out(parser, "faces")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from pinets.bench.faces import QUICK, SMALL, SearchCase, bench_faces

    use_threads(args.threads)
    which = list(QUICK if args.quick else SMALL)
    if args.gallery is not None:
        which = [replace(case, gallery=args.gallery) if isinstance(case, SearchCase) else case for case in which]
    return finish(bench_faces(choose(which, args.only), seconds=args.seconds, on_row=show), args.out)
