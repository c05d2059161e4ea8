"""``pinets quickstart``: the main job at laptop scale, on real data, with a report."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "quickstart",
        run,
        summary="train polynomial networks on handwritten digits, with a report",
        details=(
            "CCP, NCP and NCP-Skip of several orders without any activation function, beside a\n"
            "linear model and a ReLU network of the same size. About a minute on a laptop;\n"
            "needs neither a download nor a GPU."
        ),
        example="pinets quickstart --out runs/quickstart",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for the report and the models (default: runs/quickstart)")
    parser.add_argument("--seeds", metavar="N", type=positive, help="how often each model is trained (default: 3)")
    parser.add_argument("--epochs", metavar="N", type=positive, help="how long each model is trained")


def run(args: argparse.Namespace) -> int:
    from pinets.tasks.quickstart import quickstart

    given = {name: getattr(args, name) for name in ("out", "seeds", "epochs") if getattr(args, name) is not None}
    quickstart(**given)
    return 0
