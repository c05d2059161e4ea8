"""Registered models as values of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import torch
from torch import nn

from pinets.models import create_model
from pinets.recipes.recipe import Recipe
from pinets.recipes.values import RecipeError, parse

__all__ = ["Model", "Network", "with_model"]

Option = bool | int | float | tuple[int, ...] | str | None
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


@dataclass(frozen=True)
class Model:
    """A registered model and what it is made with.

    Args:
        name: One of ``pinets.models.list_models()``.
        options: Passed to ``create_model``; on a command line ``--set model.width=16``.
    """

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)

    def build(self, classes: int) -> nn.Module:
        return create_model(self.name, **{"num_classes": classes, **self.options})

    def with_options(self, **options: Option) -> Self:
        """The same model with some options changed, or more of them."""
        return replace(self, options={**self.options, **options})

    def set_option(self, key: str, text: str, inside: str) -> Self:
        """The same model with an option read from text; what a model does not take, it refuses itself."""
        changed = self.with_options(**{key: parse(Option, text, f"{inside}.{key}")})
        try:
            with torch.device("meta"):
                changed.build(classes=2)
        except (TypeError, ValueError) as error:
            raise RecipeError(f"{inside}.{key}: {error}") from error
        return changed


class Network(Model):
    """A registered generator or discriminator and what it is made with; on a command line ``--set model.width=16``."""

    def build(self, classes: int = 0) -> nn.Module:
        return create_model(self.name, **self.options)


def with_model(recipe: AnyRecipe, name: str) -> AnyRecipe:
    """The same recipe for another model with the same options."""
    changed: dict[str, Any] = {"model": replace(recipe.model, name=name)}  # type: ignore[attr-defined]
    return replace(recipe, **changed)
