"""``pinets explain``: what the weights of a polynomial classifier say."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import indices, positive
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "explain",
        run,
        summary="show what the weights of a polynomial classifier of images say",
        details="Eigenvectors of each class's interactions as images, components of higher degrees, how many of them "
        "suffice, and a pattern that pulls images to a class. Writes explain.json, class-*.png and components.png.",
        example="""
            pinets explain mnist_ccp4 --out explained
            pinets explain runs/mnist_ccp4-small/seed-0 --degrees 2,3 --images 2000
        """,
    )
    parser.add_argument("source", metavar="RUN", help="a run folder, or the name of trained weights")
    parser.add_argument("--out", metavar="DIR", default="explained", help="folder to write into (default: explained)")
    parser.add_argument("--degrees", metavar="LIST", type=indices, help="as 2,3 (default: all from 2 on)")
    parser.add_argument("--components", type=positive, default=16, help="of higher degrees, a class (default: 16)")
    parser.add_argument("--images", type=positive, default=2000, help="test images for accuracies (default: 2000)")
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (default: that of the run)")


def run(args: argparse.Namespace) -> int:
    from pinets._files import make_writable_folder
    from pinets._resolve import resolve
    from pinets.tasks import ClassificationRecipe
    from pinets.tasks.classification.explain import explain, write_explanation

    found = resolve(args.source, data_dir=args.data)
    if not isinstance(found.recipe, ClassificationRecipe):
        raise UsageError(f"{args.source} is not a trained classifier")
    make_writable_folder(args.out)
    images, labels = found.data.read("test", args.images)
    explained = explain(
        found.network,
        images,
        labels,
        classes=found.classes or tuple(map(str, range(found.recipe.data.classes))),
        degrees=args.degrees,
        components=args.components,
    )
    files = write_explanation(explained, args.out)
    print(f"accuracy {explained.accuracy:.4f} on {len(images):,} test images")
    for degree, spectrum in explained.spectra.items():
        curve = ", ".join(f"{count}: {value:.4f}" for count, value in explained.truncated[degree].items())
        rank = float(spectrum.effective_rank.mean())
        print(f"degree {degree}: effective rank {rank:.1f}; accuracy by components {curve}")
    print(f"{args.out}: {len(files)} files")
    return 0
