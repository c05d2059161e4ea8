"""``pinets eval``: metrics of a run's weights, of a folder of images, or of faces."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Literal

from pinets.cli import eval_faces
from pinets.cli.arguments import positive, print_json, share
from pinets.cli.parser import UsageError, Verbs, add_verb
from pinets.cli.train import with_hints

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "eval",
        run,
        summary="evaluate the newest weights of a run, a folder of images, or faces",
        details=(
            "The images of a generator are measured by all protocols of its recipe, or by --protocol.\n"
            "With --reference, the path is a folder of images, which are compared with those of a data set or of\n"
            "another folder. For verification and identification of faces: pinets eval faces --help"
        ),
        example="""
            pinets eval runs/cifar10_resnet18/seed-0 --split validation
            pinets eval runs/cifar10_sngan/seed-0 --protocol is50k_10splits
            pinets eval samples --reference cifar10 --protocol fid5k
            pinets eval faces pairs --pack lfw.bin --embeddings lfw.npy
        """,
    )
    eval_faces.add_parser(parser.words)
    parser.add_argument("path", metavar="PATH", help="a run folder, or a folder of images")
    parser.add_argument("--split", choices=["validation", "test"], help="of the run's data (default: test)")
    parser.add_argument(
        "--data", metavar="DIR", help="folder of the datasets (default: that of the run, or $PINETS_DATA)"
    )
    parser.add_argument("--compile", action="store_true", help="compile the networks first")
    images = parser.add_argument_group("images, of a generator or of a folder")
    images.add_argument("--reference", metavar="NAME", help="for a folder: a data set, or another folder")
    images.add_argument(
        "--protocol",
        metavar="NAME",
        help="fid50k_train, fid10k_test, fid5k, fid2k, ... (default: those of the recipe; of a folder fid5k)",
    )
    images.add_argument("--samples", type=positive, metavar="N", help="another number than the protocol's")
    images.add_argument(
        "--truncation", metavar="PSI", type=share, default=1.0, help="draw a generator's images towards their average"
    )
    images.add_argument(
        "--pad", type=positive, metavar="N", help="for a folder: black pixels around the data set's images"
    )


def run(args: argparse.Namespace) -> int:
    from pinets.engine.run import RunFolder
    from pinets.tasks.generation.metrics import get_protocol

    if args.protocol is not None:
        try:
            get_protocol(args.protocol)
        except ValueError as error:
            raise UsageError(f"--protocol: {error}") from error
    is_run = RunFolder(args.path).exists
    if args.compile and not is_run:
        raise UsageError(f"--compile is for the networks of a run, and {args.path} is none")
    if args.truncation != 1 and not is_run:
        raise UsageError(f"--truncation is for the generator of a run, and {args.path} is none")
    if not is_run and (args.reference is not None or args.protocol is not None):
        return run_images(args)
    if not is_run and (args.samples is not None or args.pad is not None):
        raise UsageError("--samples and --pad are for a folder of images: name what to compare with by --reference")
    return run_run(args)


def run_run(args: argparse.Namespace) -> int:
    from pinets import tasks as recipes
    from pinets.engine.run import RunFolder
    from pinets.tasks import generation

    if args.reference is not None or args.pad is not None:
        raise UsageError("--reference and --pad are for a folder of images: a run is compared with its own data")
    recipe = recipes.recipe_from_json(RunFolder(args.path).recipe())
    if isinstance(recipe, generation.GenerationRecipe) and args.split is None:
        if args.compile:
            raise UsageError("--compile is for a split: images of a generator are measured without it")
        return run_generator(args, generation.protocol_names(args.protocol or recipe.metric))
    if args.protocol is not None or args.samples is not None or args.truncation != 1:
        raise UsageError("--protocol, --samples and --truncation are for the images of a generator, without --split")
    split: Literal["validation", "test"] = args.split or "test"
    with with_hints():
        metrics = recipes.evaluate(args.path, split, data_dir=args.data, compile=args.compile)
    if recipes.is_main_process():
        print_json({split: metrics})
    return 0


def run_generator(args: argparse.Namespace, protocols: Sequence[str]) -> int:
    """Print the result of each protocol; one that lacks its weights does not stop the others."""
    from pinets.data.errors import MissingDataError
    from pinets.tasks import generation

    chosen = {"samples": args.samples, "truncation": args.truncation, "data_dir": args.data}
    if len(protocols) < 2:
        print_json(generation.measure(args.path, args.protocol, **chosen).to_json())
        return 0
    found = []
    for name in protocols:
        try:
            found.append(generation.measure(args.path, name, **chosen))
        except MissingDataError as error:
            print(f"{name} not measured: {error}", file=sys.stderr)
    print_json([result.to_json() for result in found])
    return 0 if found else 1


def run_images(args: argparse.Namespace) -> int:
    from pinets.tasks.generation.metrics import evaluate_folder

    if args.split is not None:
        raise UsageError("--split is for a run; with images the protocol decides, as in fid10k_test")
    result = evaluate_folder(
        args.path,
        args.reference,
        args.protocol or "fid5k",
        samples=args.samples,
        pad=args.pad or 0,
        data_dir=args.data,
    )
    print_json(result.to_json())
    return 0
