"""``pinets stress``: the largest outputs of a classifier over damaged images."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pinets.cli.arguments import positive, print_json
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "stress",
        run,
        summary="measure the largest outputs of a classifier over damaged images",
        details="Test images with noise, shifted, blurred, brighter, darker, with strong contrast or vivid colours, "
        "negative, out of range, and images of random pixels; and what gradient ascent finds between black and white. "
        "The ratio compares the largest output with the median of the undamaged images' largest ones.",
        example="""
            pinets stress runs/fashion_strict-small/seed-0
            pinets stress mnist_ccp4 --images 1000 --json
        """,
    )
    parser.add_argument("source", metavar="RUN", help="a run folder, or the name of trained weights")
    parser.add_argument("--images", type=positive, default=10_000, help="test images for each kind (default: 10000)")
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (default: that of the run)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._resolve import resolve
    from pinets.data import ImageSet
    from pinets.report import aligned
    from pinets.tasks import ClassificationRecipe
    from pinets.tasks.classification.stress import stress

    found = resolve(args.source, data_dir=args.data)
    if not isinstance(found.recipe, ClassificationRecipe) or not isinstance(found.data.splits.test, ImageSet):
        raise UsageError(f"{args.source} is not a trained classifier of images that are kept in memory")
    test = found.data.splits.test
    chosen = torch.arange(min(args.images, len(test)))
    rows = stress(found.network, test.images[chosen], test.labels[chosen], found.data.evaluation)
    if args.json:
        print_json([asdict(row) for row in rows])
        return 0
    header = ("damage", "images", "accuracy", "largest output", "over the median", "images above 10x")
    cells = [
        (r.damage, f"{r.images:,}", f"{r.accuracy:.4f}", f"{r.largest:.4g}", f"{r.ratio:.3g}", str(r.beyond))
        for r in rows
    ]
    print("\n".join(aligned([header, *cells])))
    return 0
