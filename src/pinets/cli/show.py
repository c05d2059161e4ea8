"""``pinets show``: a recipe with its notes, or a model."""

from __future__ import annotations

import argparse
import json

from pinets.cli.counts import count_parameters
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "show",
        run,
        summary="show the values of a recipe with the paper's figure and ours, or the layers of a model",
        example="""
            pinets show cifar10_prodpoly_resnet18 --scale small
            pinets show prodpoly_resnet18_cifar
        """,
    )
    parser.add_argument("name", metavar="NAME", help="a recipe or a model")
    parser.add_argument("--scale", choices=["full", "small"], default="full", help="of a recipe")


def run(args: argparse.Namespace) -> int:
    from pinets import recipes
    from pinets._nearest import did_you_mean
    from pinets.models import create_model, list_models

    if args.name in recipes.list_recipes():
        recipe = recipes.get_recipe(args.name, args.scale)
        print(recipes.recipe_notes(args.name), json.dumps(recipes.to_json(recipe), indent=2), sep="\n\n")
        networks = recipe.networks()
    elif args.name in list_models():
        networks = {args.name: create_model(args.name)}
        print(networks[args.name])
    else:
        known = [*recipes.list_recipes(), *list_models()]
        raise UsageError(f"there is no recipe or model {args.name!r}{did_you_mean(args.name, known)}")
    for name, network in networks.items():
        print(f"{name}: {count_parameters(network)}")
    return 0
