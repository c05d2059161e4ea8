"""``pinets list``: the names of recipes, models, weights and datasets."""

from __future__ import annotations

import argparse

from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "list",
        run,
        summary="list recipes, models, trained weights or datasets",
        example="""
            pinets list recipes
            pinets list models
            pinets list weights
            pinets list data
        """,
    )
    parser.add_argument(
        "what",
        metavar="KIND",
        choices=["recipes", "models", "weights", "data"],
        nargs="?",
        default="recipes",
        help="recipes, models, weights or data (default: recipes)",
    )


def run(args: argparse.Namespace) -> int:
    if args.what == "recipes":
        from pinets.tasks import list_recipes, recipe_notes

        rows = {name: recipe_notes(name).partition("\n")[0] for name in list_recipes()}
    elif args.what == "data":
        from pinets.data import DATA_SETS

        rows = {name: data_set.summary for name, data_set in DATA_SETS.items()}
    elif args.what == "weights":
        from pinets.models import list_weights, read_card

        rows = {}
        for name in list_weights():
            try:
                rows[name] = read_card(name).summary
            except ValueError as error:  # a file in a folder of the user's that is not one of weights
                rows[name] = f"cannot be used: {error}"
    else:
        from pinets.models import list_models, model_entry

        rows = {name: model_entry(name).summary for name in list_models()}
    width = max(map(len, rows))
    for name, summary in rows.items():
        print(f"{name:{width}}  {summary}".rstrip())
    return 0
