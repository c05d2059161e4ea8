"""``pinets train``: run a recipe."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pinets.cli.arguments import positive
from pinets.cli.counts import count_parameters
from pinets.cli.parser import Parser, UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets.tasks import Recipe

__all__ = ["add_parser", "add_recipe_options", "read_recipe", "run", "with_hints"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "train",
        run,
        summary="train a recipe",
        details="The run folder, OUT/NAME/seed-K, holds all that is needed to repeat the run. Several processes: "
        "torchrun --nproc-per-node 2 -m pinets.cli train NAME",
        example="""
            pinets train cifar10_prodpoly_resnet18 --scale small
            pinets train cifar10_resnet18 --set optimizer.lr=0.05 --seeds 5
            pinets train cifar10_resnet18 --resume
        """,
    )
    parser.add_argument("name", metavar="NAME", help="a recipe, or a variant NAME:KEY=VALUE; pinets list recipes")
    add_recipe_options(parser)
    parser.add_argument("--seeds", metavar="N", type=positive, help="train N times, with seeds 0 to N - 1")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run, bit for bit")
    parser.add_argument("--dry-run", action="store_true", help="print the recipe and its size, and train nothing")


def add_recipe_options(parser: Parser) -> None:
    """The options of all verbs that train recipes."""
    parser.add_argument(
        "--scale",
        choices=["full", "medium", "small"],
        default="full",
        help="medium: two hours on a CPU core; small: minutes",
    )
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="change a value, as optimizer.lr=0.05"
    )
    parser.add_argument(
        "--compile",
        dest="set",
        action="append_const",
        const="compile=yes",
        help="compile the networks: slow to start, then faster",
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (default: $PINETS_DATA)")
    parser.add_argument("--out", metavar="DIR", default="runs", help="folder of the run folders (default: runs)")


def read_recipe(name: str, args: argparse.Namespace) -> Recipe:
    """The recipe that the options of :func:`add_recipe_options` ask for."""
    from pinets.engine.recipe import keys_of
    from pinets.tasks import RecipeError, get_recipe

    if args.seeds is not None and "seed" in keys_of(args.set):
        raise UsageError(f"--seeds {args.seeds} stands for seeds 0 to {args.seeds - 1}: leave out --set seed=...")
    try:
        return get_recipe(name, args.scale, args.set)
    except RecipeError as error:
        hint = " (--scale)" if "scale" in keys_of(args.set) else ""
        raise UsageError(f"{error}{hint}") from error


@contextmanager
def with_hints() -> Iterator[None]:
    """Name the options that help, in errors of functions that have no options."""
    from pinets.data import MissingDataError
    from pinets.engine.run import ChangedRecipeError, RunExistsError

    try:
        yield
    except RunExistsError as error:
        raise RunExistsError(f"{error} (--resume, --out)") from error
    except ChangedRecipeError as error:
        raise ChangedRecipeError(f"{error}: give the same --set, or another --out") from error
    except MissingDataError as error:
        raise MissingDataError(f"{error} (--data)") from error


def run(args: argparse.Namespace) -> int:
    from pinets import tasks as recipes
    from pinets.report import summarize, text_table, write_report

    recipe = read_recipe(args.name, args)
    runs = [recipe] if args.seeds is None else [replace(recipe, seed=seed) for seed in range(args.seeds)]
    if args.dry_run:
        print(json.dumps(recipes.to_json(recipe), indent=2))
        for name, network in recipe.networks().items():
            print(f"{name}: {count_parameters(network)}")
        print("would train in " + ", ".join(str(recipes.run_folder(one, args.out).path) for one in runs))
        return 0
    for one in runs:
        folder = recipes.run_folder(one, args.out)
        if args.resume and not folder.has_progress and recipes.is_main_process():
            print(f"{folder.path} has nothing to resume: the run starts anew", file=sys.stderr)
        with with_hints():
            result = recipes.train(one, args.out, data_dir=args.data, resume=args.resume)
        if recipes.is_main_process():
            write_report({one.title: [folder]}, folder.path / "report.html", title=f"{one.title}, seed {one.seed}")
            print(f"{folder.path}: " + ", ".join(f"test {name} {value:.4f}" for name, value in result["test"].items()))
    if len(runs) > 1 and recipes.is_main_process():
        print(text_table([summarize(recipe.title, [recipes.run_folder(one, args.out) for one in runs])]))
    return 0
