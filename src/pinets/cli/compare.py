"""``pinets compare``: the same data, the same budget, several seeds; a table and curves."""

from __future__ import annotations

import argparse
from pathlib import Path

from pinets.cli.arguments import positive
from pinets.cli.parser import Verbs, add_verb
from pinets.cli.train import add_recipe_options, read_recipe, with_hints

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "compare",
        run,
        summary="train recipes on the same data with the same budget, and compare them over several seeds",
        details="NAME:KEY=VALUE is a variant of a recipe, with a run folder of its own; --set changes all of them. "
        "Finished runs are not run again; interrupted ones continue where they stopped.",
        example="""
            pinets compare cifar10_resnet18 cifar10_prodpoly_resnet18 --scale small --seeds 3
            pinets compare cifar10_resnet18 cifar10_resnet18:optimizer.lr=0.05 --scale small
            pinets compare cifar10_resnet18 cifar10_resnet18:optimizer.lr=0.05:clip=1 --scale small
        """,
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="recipes or variants; pinets list recipes shows them")
    add_recipe_options(parser)
    parser.add_argument("--seeds", metavar="N", type=positive, default=3, help="runs of each (default: 3)")


def run(args: argparse.Namespace) -> int:
    from pinets import tasks as recipes
    from pinets.report import summarize, text_table, write_report

    chosen = [read_recipe(name, args) for name in args.names]
    with with_hints():
        runs = recipes.compare(chosen, args.seeds, args.out, data_dir=args.data)
    if not recipes.is_main_process():
        return 0
    groups = {recipe.title: folders for recipe, folders in zip(chosen, runs, strict=True)}
    print(text_table([summarize(name, folders) for name, folders in groups.items()]))
    first, *others = groups
    names = "-".join(groups)
    if len(others) > 2 or len(names) > 200:  # too long for the name of a file
        names = f"{first}-and-{len(others)}-others"
    report = Path(args.out) / f"compare-{names}.html"
    write_report(groups, report, title=" against ".join(groups))
    print(f"curves: {report}")
    return 0
