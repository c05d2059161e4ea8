"""``pinets eval``: the metrics of a run, computed again from its weights."""

from __future__ import annotations

import argparse
import json

from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "eval",
        run,
        summary="evaluate the newest weights of a run",
        example="pinets eval runs/cifar10_resnet18/seed-0 --split validation",
    )
    parser.add_argument("path", metavar="RUN", help="a run folder")
    parser.add_argument("--split", choices=["validation", "test"], default="test", help="of the data (default: test)")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")


def run(args: argparse.Namespace) -> int:
    from pinets import recipes

    metrics = recipes.evaluate(args.path, args.split, data_dir=args.data)
    if recipes.is_main_process():
        print(json.dumps({args.split: metrics}, indent=2))
    return 0
