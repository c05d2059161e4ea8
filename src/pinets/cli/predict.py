"""``pinets predict``: what a trained network says to images, sounds or tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pinets.cli.arguments import MODEL_HELP, positive, print_json
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets.prediction import Prediction

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "predict",
        run,
        summary="classify images, sounds or the rows of a table with a trained network",
        details=(
            "Images and sounds are prepared as those the run was evaluated on. A table (.csv, .npy) has one input per\n"
            "row, as the network takes it. RUN is a run folder, a file that pinets export wrote, or a MODEL.\n\n"
            f"{MODEL_HELP}"
        ),
        example="""
            pinets predict runs/mnist_ccp4-small/seed-0 digit.png more_digits
            pinets predict model.onnx photos --top 3 --json
            pinets predict houses.skops rows.csv
        """,
    )
    parser.add_argument("model", metavar="RUN", help="a run folder, model.onnx, .pt2, .safetensors, .skops, or a model")
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="image, sound, table, or a folder of them")
    parser.add_argument("--top", metavar="K", type=positive, default=1, help="show the K best classes (default: 1)")
    parser.add_argument("--json", action="store_true", help="as JSON, with the scores of all classes")
    parser.add_argument("--trust", action="store_true", help="read a .pt2 file, from which torch may execute code")
    parser.add_argument("--data", metavar="DIR", help="where datasets are (default: that of the run, or $PINETS_DATA)")


def run(args: argparse.Namespace) -> int:
    from pinets.prediction import UntrustedFileError, predict
    from pinets.report import aligned

    try:
        found = predict(args.model, args.inputs, data_dir=args.data, trust=args.trust)
    except UntrustedFileError as error:
        raise UsageError(f"{error} (--trust)") from error
    if args.json:
        rows = [
            {"input": one.source, **({"class": one.best()[0][0]} if one.classes else {}), "scores": _scores(one)}
            for one in found
        ]
        print_json(rows)
    elif found[0].classes is None:
        print("\n".join(f"{one.source}: {', '.join(f'{score:.6g}' for score in one.scores)}" for one in found))
    else:
        count = min(args.top, len(found[0].scores))
        classes = ["class", *(f"{place}. class" for place in range(2, count + 1))]
        heads = ["input", *(word for name in classes for word in (name, "probability"))]
        cells = [[one.source, *(cell for name, p in one.best(count) for cell in (name, f"{p:.4f}"))] for one in found]
        print("\n".join(aligned([heads, *cells])))
    return 0


def _scores(one: Prediction) -> dict[str, float] | list[float]:
    """Scores by class, or as a list where there are no classes."""
    return list(one.scores) if one.classes is None else dict(zip(one.classes, one.scores, strict=True))
