"""``pinets bench encrypted``: encrypted inference on trained networks, against TenSEAL's own matrix product."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, finish, show
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets.bench.encrypted import Case

__all__ = ["add_parser"]


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "encrypted",
        run,
        summary="encrypted inference: deviation, accuracy and time, against TenSEAL",
        details="Every RUN is the folder of a trained classifier, such as pinets train mnist_ccp4 makes.",
        example="""
            pinets bench encrypted runs/mnist_ccp4-small/seed-0 runs/fashion_ccp4-small/seed-0
            pinets bench encrypted runs/mnist_ccp4-small/seed-0 --packing throughput --images 4096
        """,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders")
    parser.add_argument("--images", type=positive, default=100, help="test images (default: 100)")
    parser.add_argument("--peer-images", type=int, default=2, help="for TenSEAL; 0 to leave it out (default: 2)")
    parser.add_argument("--packing", choices=["latency", "throughput"], default="latency", help="(default: latency)")
    parser.add_argument("--ring", type=positive, help="this ring size, instead of the smallest that works")
    parser.add_argument("--workers", type=positive, help="processes (default: one for each core)")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    add_out(parser, "encrypted")


def run(args: argparse.Namespace) -> int:
    from pinets.bench.encrypted import bench_encrypted
    from pinets.deploy.encrypted.machine import worker_count

    options = {"packing": args.packing} | ({"rings": (args.ring,)} if args.ring else {})
    bench = bench_encrypted(
        [_case(path, args.images, args.data) for path in args.runs],
        workers=worker_count(args.workers),
        peer_images=args.peer_images,
        options=options,
        on_row=show,
    )
    return finish(bench, args.out)


def _case(path: str, images: int, data_dir: str | None) -> Case:
    from pinets.bench.encrypted import Case
    from pinets.cli.encrypt import read_run

    if not Path(path).is_dir():
        raise UsageError(f"there is no run folder {path}")
    source = read_run(path, data_dir)
    inputs, labels = source.held_out(images)
    assert labels is not None
    return Case(Path(path).parent.name, source.network, source.calibration, inputs, labels)
