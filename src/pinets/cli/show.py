"""``pinets show``: a recipe with its notes, or a network."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli.arguments import MODEL_HELP, file_ending_in
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import nn

__all__ = ["add_parser", "count_parameters", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "show",
        run,
        summary="show the values of a recipe with the paper's figure and ours, or the layers of a network",
        details=f"NAME is a recipe or a MODEL.\n\n{MODEL_HELP}",
        example="""
            pinets show cifar10_prodpoly_resnet18 --scale small
            pinets show prodpoly_resnet18_cifar
            pinets show runs/mnist_ccp4-small/seed-0
            pinets show "NCP(16, 4, rank=8, order=3)" --diagram ncp.svg
        """,
    )
    parser.add_argument("name", metavar="NAME", help="a recipe, a model, a file or a run folder")
    parser.add_argument("--scale", choices=["full", "medium", "small"], default="full", help="of a recipe")
    parser.add_argument(
        "--diagram",
        metavar="FILE.svg",
        type=file_ending_in(".svg"),
        help="also draw the slots of a network's polynomials",
    )


def run(args: argparse.Namespace) -> int:
    from pinets import tasks
    from pinets._resolve import resolve

    if args.name in tasks.list_recipes():
        if args.diagram:
            raise UsageError(f"--diagram draws networks, and {args.name} is a recipe; name its model or a run")
        recipe = tasks.get_recipe(args.name, args.scale)
        print(tasks.recipe_notes(args.name), json.dumps(tasks.to_json(recipe), indent=2), sep="\n\n")
        for name, network in recipe.networks().items():
            print(f"{name}: {count_parameters(network)}")
        return 0
    _require_known(args.name)
    found = resolve(args.name)
    print(found.network)
    shape = "unknown" if found.input_shape is None else "x".join(map(str, found.input_shape))
    print(f"{args.name}: {count_parameters(found.network)}, inputs {shape}")
    if args.diagram:
        from pinets._files import write_bytes
        from pinets.report.diagram import diagram

        write_bytes(args.diagram, diagram(found.network).encode())
        print(f"drawn to {args.diagram}")
    return 0


def _require_known(name: str) -> None:
    """Answer a misspelt name with the nearest recipe or model; an expression has errors of its own."""
    from pinets._nearest import did_you_mean
    from pinets.models import list_models, list_weights
    from pinets.tasks import list_recipes

    known = [*list_recipes(), *list_models(), *list_weights()]
    if name.isidentifier() and name not in known and not Path(name).is_dir():
        raise UsageError(f"there is no recipe, model or trained weights {name!r}{did_you_mean(name, known)}")


def count_parameters(network: nn.Module) -> str:
    """The number of parameters, and how many are trained where some are frozen.

    >>> from torch import nn
    >>> count_parameters(nn.Linear(1000, 2))
    '2,002 parameters'
    >>> count_parameters(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).requires_grad_(False)))
    '11 parameters, 8 of them trained'
    """
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in network.parameters()]
    all_of_them, trained = sum(count for count, _ in counts), sum(count for count, learns in counts if learns)
    return f"{all_of_them:,} parameters" + (f", {trained:,} of them trained" if trained < all_of_them else "")
