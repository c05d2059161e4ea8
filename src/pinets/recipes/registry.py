"""Recipes by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any, Protocol, TypeVar, get_args

from pinets._nearest import did_you_mean
from pinets.recipes.kinds.recipe import Recipe, Scale
from pinets.recipes.values import RecipeError, from_json, set_values

__all__ = ["get_recipe", "keys_of", "list_recipes", "recipe", "recipe_from_json", "recipe_notes"]

Made = TypeVar("Made", bound=Recipe)
Made_co = TypeVar("Made_co", bound=Recipe, covariant=True)


class Maker(Protocol[Made_co]):
    """A registered function."""

    __qualname__: str

    def __call__(self, scale: Scale = "full") -> Made_co: ...


_MAKERS: dict[str, Maker[Recipe]] = {}


def recipe(make: Callable[[Scale], Made]) -> Maker[Made]:
    """Register a function that makes a recipe, under its own name; one that is read again replaces itself.

    What it makes gets that name and the scale it was asked for, also where it changes what another function makes.
    """

    @wraps(make)
    def named(scale: Scale = "full") -> Made:
        if scale not in get_args(Scale):
            raise RecipeError(f"scale must be one of {', '.join(get_args(Scale))}, got {scale!r}")
        return replace(make(scale), name=make.__name__, scale=scale)

    taken = _MAKERS.get(make.__name__, named)
    if (taken.__module__, taken.__qualname__) != (named.__module__, named.__qualname__):
        raise ValueError(f"there already is a recipe named {make.__name__!r}, in {taken.__module__}")
    _MAKERS[make.__name__] = named
    return named


def list_recipes() -> list[str]:
    """The names of all recipes."""
    return sorted(_MAKERS)


def get_recipe(name: str, scale: Scale = "full", changes: Iterable[str] = ()) -> Recipe:
    """Make a recipe by name, with changes such as ``"optimizer.lr=0.05"``.

    >>> get_recipe("cifar10_resnet18").epochs
    120
    >>> get_recipe("cifar10_resnet_18")
    Traceback (most recent call last):
    pinets.recipes.values.RecipeError: there is no recipe 'cifar10_resnet_18'; did you mean 'cifar10_resnet18'?
    """
    changes = list(changes)
    if "scale" in keys_of(changes):
        raise RecipeError("scale stands for many values and cannot be changed alone: choose it with --scale")
    made = set_values(_maker(name)(scale), changes)
    if made.name != name and made.name in _MAKERS:
        raise RecipeError(f"name: {made.name!r} is another recipe, whose runs must not be mixed with those of {name!r}")
    return made


def keys_of(changes: Iterable[str]) -> set[str]:
    """The keys that changes such as ``"seed=3"`` are about."""
    return {change.partition("=")[0].strip() for change in changes}


def recipe_notes(name: str) -> str:
    """What is written about a recipe: the paper's figure, ours, and the command."""
    return inspect.getdoc(_maker(name)) or ""


def recipe_from_json(content: Any) -> Recipe:
    """The recipe of a run folder's ``recipe.json``."""
    kinds = {kind.__name__: kind for kind in _subclasses(Recipe)}
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind not in kinds:
        raise RecipeError(f"a recipe must be of kind {', '.join(sorted(kinds))}; got {kind!r}")
    return from_json(kinds[kind], content)


def _maker(name: str) -> Maker[Recipe]:
    if name not in _MAKERS:
        raise RecipeError(f"there is no recipe {name!r}{did_you_mean(name, _MAKERS)}")
    return _MAKERS[name]


def _subclasses(parent: type[Any]) -> Iterable[type[Any]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)
