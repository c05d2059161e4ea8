"""``pinets train``: run a recipe."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pinets._nearest import did_you_mean
from pinets.cli.arguments import positive
from pinets.cli.parser import Parser, UsageError, Verbs, add_verb
from pinets.cli.show import count_parameters

if TYPE_CHECKING:
    from pinets.tasks import Recipe

__all__ = [
    "add_parser",
    "add_recipe_options",
    "add_run_options",
    "add_value_options",
    "read_recipe",
    "run",
    "train_all",
    "values_checked",
    "with_hints",
]

_FILE = re.compile(r"(?P<place>[^:]+\.py):(?P<name>.+)")


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "train",
        run,
        summary="train a recipe",
        details="The run folder, OUT/NAME/seed-K, holds all that is needed to repeat the run. Several processes: "
        "torchrun --nproc-per-node 2 -m pinets.cli train NAME\n\n"
        "On data of your own: pinets train images --help, pinets train sounds --help, pinets train meshes --help. "
        "A recipe of your own: pinets init my_experiment.py",
        example="""
            pinets train cifar10_prodpoly_resnet18 --scale small
            pinets train cifar10_resnet18 --set optimizer.lr=0.05 --seeds 5
            pinets train cifar10_resnet18 --resume
            pinets train my_experiment.py:my_recipe --dry-run
            pinets train images --data my_photos
        """,
    )
    from pinets.cli import train_own  # which uses the options of this module

    train_own.add_parsers(parser.words)
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a recipe (pinets list recipes), a variant NAME:KEY=VALUE, or file.py:NAME; that file is executed",
    )
    add_recipe_options(parser)
    add_run_options(parser)


def add_run_options(parser: Parser) -> None:
    """Add the options of verbs that train single recipes, not comparisons."""
    parser.add_argument("--seeds", metavar="N", type=positive, help="train N times, with seeds 0 to N - 1")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run, bit for bit")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the recipe, its size and all that does not fit; train nothing (exit code 1 if something does not)",
    )


def add_recipe_options(parser: Parser) -> None:
    """Add the options of all verbs that train recipes by name."""
    parser.add_argument(
        "--scale",
        choices=["full", "medium", "small"],
        default="full",
        help="medium: two hours on a CPU core; small: minutes",
    )
    add_value_options(parser)
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (default: $PINETS_DATA)")


def add_value_options(parser: Parser) -> None:
    """Add the options of all verbs that train."""
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
    parser.add_argument("--out", metavar="DIR", default="runs", help="folder of the run folders (default: runs)")


def read_recipe(name: str, args: argparse.Namespace) -> Recipe:
    """The recipe that the options of :func:`add_recipe_options` ask for."""
    from pinets.tasks import get_recipe

    if target := _FILE.fullmatch(name):
        return _from_file(target["place"], target["name"], args)
    if name.endswith(".py"):
        raise UsageError(f"a file may define several recipes: name one, as {name}:my_recipe")
    near = did_you_mean("meshes" if name == "mesh" else name, ("images", "sounds", "meshes"))
    if "did you mean" in near:
        raise UsageError(f"there is no recipe {name!r}{near}")
    with values_checked(args):
        return get_recipe(name, args.scale, args.set)


def _from_file(place: str, name: str, args: argparse.Namespace) -> Recipe:
    """A recipe that a Python file defines: a registered one, or a value, or a function without arguments."""
    from pinets._resolve import named_in_python
    from pinets.engine.recipe import change_recipe, split_variant
    from pinets.tasks import Recipe, get_recipe, list_recipes

    word, own = split_variant(name)
    found = named_in_python(place, word)
    with values_checked(args):
        if word in list_recipes():
            return get_recipe(name, args.scale, args.set)
        made = found() if callable(found) else found
        if not isinstance(made, Recipe):
            raise UsageError(f"{place}:{word} must be a recipe or a function that makes one, got {type(made).__name__}")
        return change_recipe(made, args.set, own)


@contextmanager
def values_checked(args: argparse.Namespace) -> Iterator[None]:
    """Turn errors in the values of a recipe into usage errors."""
    from pinets.engine.recipe import keys_of
    from pinets.tasks import RecipeError

    if args.seeds is not None and "seed" in keys_of(args.set):
        raise UsageError(f"--seeds {args.seeds} stands for seeds 0 to {args.seeds - 1}: leave out --set seed=...")
    try:
        yield
    except RecipeError as error:
        hint = " (--scale)" if "scale" in keys_of(args.set) else ""
        raise UsageError(f"{error}{hint}") from error


@contextmanager
def with_hints() -> Iterator[None]:
    """Add the options that help to errors of library functions."""
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
    return train_all([read_recipe(args.name, args)], args)


def train_all(chosen: Sequence[Recipe], args: argparse.Namespace) -> int:
    """Train recipes one after the other, each with its seeds; several end in a table."""
    from pinets import tasks as recipes
    from pinets.report import summarize, text_table, write_report
    from pinets.tasks.run_report import about_run

    groups = {
        one.title: [one] if args.seeds is None else [replace(one, seed=seed) for seed in range(args.seeds)]
        for one in chosen
    }
    if args.dry_run:
        return max([check(one, groups[one.title], args) for one in chosen])
    for title, runs in groups.items():
        for one in runs:
            folder = recipes.run_folder(one, args.out)
            if args.resume and not folder.has_progress and recipes.is_main_process():
                print(f"{folder.path} has nothing to resume: the run starts anew", file=sys.stderr)
            with with_hints():
                result = recipes.train(one, args.out, data_dir=args.data, resume=args.resume)
            if recipes.is_main_process():
                about, name = partial(about_run, data_dir=args.data), f"{title}, seed {one.seed}"
                write_report({title: [folder]}, folder.path / "report.html", title=name, about=about)
                numbers = ", ".join(f"test {name} {value:.4f}" for name, value in result["test"].items())
                print(f"{folder.path}: {numbers}")
    if sum(map(len, groups.values())) > 1 and recipes.is_main_process():
        folders = {title: [recipes.run_folder(one, args.out) for one in runs] for title, runs in groups.items()}
        print(text_table([summarize(title, found) for title, found in folders.items()]))
    return 0


def check(recipe: Recipe, runs: Sequence[Recipe], args: argparse.Namespace) -> int:
    """Print a recipe, the sizes of its networks, and all that does not fit the data; 1 if something does not."""
    from pinets import tasks as recipes

    print(json.dumps(recipes.to_json(recipe), indent=2))
    with suppress(ValueError, TypeError, RuntimeError):  # what is wrong is told below
        for name, network in recipe.networks().items():
            print(f"{name}: {count_parameters(network)}")
    print("would train in " + ", ".join(str(recipes.run_folder(one, args.out).path) for one in runs))
    found = recipe.check(args.data)
    for missing in found.missing:
        print(f"not here, and not checked: {missing}", file=sys.stderr)
    for mismatch in found.mismatches:
        print(f"does not fit: {mismatch}", file=sys.stderr)
    return 1 if found.mismatches else 0
