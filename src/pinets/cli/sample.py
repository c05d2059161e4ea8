"""``pinets sample``: images from the generators of runs; and shapes from autoencoders."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli import sample_shapes
from pinets.cli.arguments import positive, share
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "sample",
        run,
        summary="generate images, or reconstruct shapes, with the newest weights of a run",
        details=(
            "Several runs, or --real, make one figure with a panel for each; --folder takes one run.\n"
            "Shapes: pinets sample reconstruct --help, and in the same way interpolate and arithmetic"
        ),
        example="""
            pinets sample runs/fashion_ncp-small/seed-0 --n 64 --grid out.png --seed 0
            pinets sample runs/fashion_ncp-small/seed-0 --n 5000 --folder samples
            pinets sample runs/fashion_{linear,ccp,ncp}-small/seed-0 --real --grid figure.png
            pinets sample runs/fashion_ncp-small/seed-0 --degrees --n 6 --grid degrees.png
            pinets sample reconstruct runs/coma_spiral_ncp_3-small/seed-0 --index 0,10
        """,
    )
    sample_shapes.add_parsers(parser.words)
    parser.add_argument("paths", metavar="RUN", nargs="+", help="run folders, or names of trained weights")
    parser.add_argument("--n", metavar="N", type=positive, default=64, help="how many images (default: 64)")
    parser.add_argument("--grid", metavar="FILE", help="write them as one picture, PNG (default: samples.png)")
    parser.add_argument(
        "--folder", metavar="DIR", help="write each as a PNG of its own; the folder must be new or empty"
    )
    parser.add_argument("--seed", metavar="K", type=int, default=0, help="of the noise (default: 0)")
    parser.add_argument(
        "--truncation", metavar="PSI", type=share, default=1.0, help="towards the average image: 1 not at all (default)"
    )
    parser.add_argument(
        "--interpolate", action="store_true", help="rows of images from one point of the noise to another"
    )
    parser.add_argument(
        "--degrees",
        action="store_true",
        help="rows of images that show what each degree of the polynomial adds, for generators without activations",
    )
    parser.add_argument("--real", action="store_true", help="also show images of the test set")
    parser.add_argument("--data", metavar="DIR", help="where data sets are, for --real (default: $PINETS_DATA)")


def run(args: argparse.Namespace) -> int:
    if not -(2**63) <= args.seed < 2**63:
        raise UsageError(f"--seed must have at most 64 bits, got {args.seed}")
    if args.folder is not None and (len(args.paths) > 1 or args.real):
        raise UsageError("--folder takes the samples of one run")

    from pinets.tasks import generation

    if args.grid is not None and not args.grid.endswith(".png"):
        raise UsageError(f"--grid: the picture is written as PNG; name it so, got {args.grid!r}")

    from pinets.tasks.generation.image_files import side_by_side, write_degrees, write_folder, write_grid

    grid = args.grid or "samples.png"
    if args.degrees:
        if len(args.paths) > 1 or args.real or args.interpolate or args.folder is not None or args.truncation != 1:
            raise UsageError("--degrees takes one run, and neither --real, --interpolate, --folder nor --truncation")
        write_degrees(generation.sample_degrees(args.paths[0], args.n, seed=args.seed), grid)
        print(f"grid: {grid}")
        return 0

    steps = max(2, round(args.n**0.5))
    in_row = steps if args.interpolate else None
    chosen = {"seed": args.seed, "truncation": args.truncation}

    def images(path: str) -> Tensor:
        if args.interpolate:
            return generation.interpolate(path, max(1, args.n // steps), steps, **chosen)
        return generation.sample(path, args.n, **chosen)

    if args.folder is not None:
        few = (
            [images(args.paths[0])] if args.interpolate else generation.sample_batches(args.paths[0], args.n, **chosen)
        )
        print(f"{write_folder(few, args.folder)} images in {args.folder}")
        if args.grid is None:
            return 0
        write_grid(images(args.paths[0]), grid, in_row)
    elif len(args.paths) == 1 and not args.real:
        write_grid(images(args.paths[0]), grid, in_row)
    else:
        panels = {}
        if args.real:
            panels["real"] = generation.real_images(args.paths[0], args.n, seed=args.seed, data_dir=args.data)
        names = [Path(path).parent.name for path in args.paths]  # of the recipes
        for path, name in zip(args.paths, names, strict=True):
            panels[name if name and names.count(name) == 1 else path] = images(path)
        side_by_side(panels, grid, in_row)
    print(f"grid: {grid}")
    return 0
