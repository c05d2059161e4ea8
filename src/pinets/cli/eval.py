"""``pinets eval``: the metrics of a run, computed again from its weights, of a folder of images, or of faces."""

from __future__ import annotations

import argparse
import json
from typing import Literal

from pinets.cli import eval_faces
from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "eval",
        run,
        summary="evaluate the newest weights of a run, a folder of images, or faces",
        details=(
            "With --reference, the path is a folder of images, which are compared with those of a data set or of\n"
            "another folder. For verification and identification of faces: pinets eval faces --help"
        ),
        example="""
            pinets eval runs/cifar10_resnet18/seed-0 --split validation
            pinets eval samples --reference cifar10 --protocol fid5k
            pinets eval faces pairs --pack lfw.bin --embeddings lfw.npy
        """,
    )
    eval_faces.add_parser(parser.words)
    parser.add_argument("path", metavar="PATH", help="a run folder, or a folder of images")
    parser.add_argument("--split", choices=["validation", "test"], help="of the run's data (default: test)")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    images = parser.add_argument_group("a folder of images")
    images.add_argument("--reference", metavar="NAME", help="a data set, or a folder of images")
    images.add_argument("--protocol", metavar="NAME", help="fid50k_train, fid10k_test, fid5k (default), fid2k, ...")
    images.add_argument("--samples", type=positive, metavar="N", help="another number than the protocol's")
    images.add_argument("--pad", type=positive, metavar="N", help="black pixels around the data set's images")


def run(args: argparse.Namespace) -> int:
    if args.reference is not None or args.protocol is not None:
        return run_images(args)
    if args.samples is not None or args.pad is not None:
        raise UsageError("--samples and --pad are for a folder of images: name what to compare with by --reference")
    from pinets import recipes

    split: Literal["validation", "test"] = args.split or "test"
    metrics = recipes.evaluate(args.path, split, data_dir=args.data)
    if recipes.is_main_process():
        print(json.dumps({split: metrics}, indent=2))
    return 0


def run_images(args: argparse.Namespace) -> int:
    from pinets.metrics.generation import evaluate_folder, get_protocol

    if args.split is not None:
        raise UsageError("--split is for a run; with images the protocol decides, as in fid10k_test")
    name = args.protocol or "fid5k"
    try:
        get_protocol(name)
    except ValueError as error:
        raise UsageError(f"--protocol: {error}") from error
    result = evaluate_folder(
        args.path, args.reference, name, samples=args.samples, pad=args.pad or 0, data_dir=args.data
    )
    print(json.dumps(result.to_json(), indent=2))
    return 0
