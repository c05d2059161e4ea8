"""``pinets compare``: the same data, the same budget, several seeds; a table and curves."""

from __future__ import annotations

import argparse
from pathlib import Path

from pinets.cli.arguments import positive
from pinets.cli.parser import Verbs, add_verb
from pinets.cli.train import add_recipe_options, read_recipe

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "compare",
        run,
        summary="train recipes on the same data with the same budget, and compare them over several seeds",
        details="Finished runs are not run again; interrupted ones go on where they stopped.",
        example="pinets compare cifar10_resnet18 cifar10_prodpoly_resnet18 --scale small --seeds 3",
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="recipes; pinets list recipes shows them")
    add_recipe_options(parser)
    parser.add_argument("--seeds", metavar="N", type=positive, default=3, help="runs of each (default: 3)")


def run(args: argparse.Namespace) -> int:
    from pinets import recipes
    from pinets.report.training import summarize, text_table, write_report

    chosen = [read_recipe(name, args) for name in args.names]
    runs = recipes.compare(chosen, args.seeds, args.out, data_dir=args.data)
    if not recipes.is_main_process():
        return 0
    groups = {recipe.title: folders for recipe, folders in zip(chosen, runs, strict=True)}
    print(text_table([summarize(name, folders) for name, folders in groups.items()]))
    first, *others = groups
    # the names of all, as long as a file system takes them
    names = "-".join(groups) if len(groups) < 4 else f"{first}-and-{len(others)}-others"
    report = Path(args.out) / f"compare-{names}.html"
    write_report(groups, report, title=" against ".join(groups))
    print(f"curves: {report}")
    return 0
