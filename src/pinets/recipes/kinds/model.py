"""Registered models as values of a recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import nn

from pinets import spec
from pinets.convert.weights import load_weights, read_metadata
from pinets.models import create_model
from pinets.recipes.kinds.recipe import Recipe
from pinets.recipes.values import RecipeError, parse

__all__ = ["Model", "Network", "with_model", "without_first_weights"]

Option = bool | int | float | tuple[int, ...] | str | None
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


_DIGEST = "@sha256:"  # between the name of a file and what it held when the recipe was made


@dataclass(frozen=True)
class Model:
    """A registered model, or one from a file, and what it is made with.

    Args:
        name: One of ``pinets.models.list_models()``, or an expression of :mod:`pinets.spec`. A safetensors file that
            ``pinets convert`` or ``pinets.spec.save`` wrote becomes the expression in it, and the ``weights``.
        options: Passed to ``create_model``; on a command line ``--set model.width=16``. An expression takes none.
        weights: A file of weights to start from; its SHA-256 is noted with it, and a file changed since is refused.
    """

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.name.endswith(".safetensors"):
            self._put(name=_expression_in(self.name), weights=self.name)
        if self.is_expression:
            self._put(options={})  # those of the registered model it took the place of
        if self.weights is not None and _DIGEST not in self.weights:
            self._put(weights=f"{self.weights}{_DIGEST}{_sha256(self.weights)}")

    def _put(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_expression(self) -> bool:
        """Whether the name says all there is to say, as a call of :mod:`pinets.spec`."""
        return "(" in self.name

    def build(self, classes: int) -> nn.Module:
        """The network with its first weights; one from a file gets a new head where there are other classes."""
        network = self._start(num_classes=classes)
        if self.is_expression and getattr(network, "num_classes", classes) != classes:
            network.reset_classifier(classes)  # type: ignore[operator]
        return network

    def _start(self, **arguments: Option) -> nn.Module:
        network = (
            spec.build(self.name) if self.is_expression else create_model(self.name, **{**arguments, **self.options})
        )
        if self.weights is not None:
            file, _, digest = self.weights.partition(_DIGEST)
            if digest != (found := _sha256(file)):
                raise ValueError(f"{file} has changed since the recipe was made: its SHA-256 was {digest}, is {found}")
            load_weights(network, file)
        return network

    def with_options(self, **options: Option) -> Self:
        """The same model with some options changed, or more of them."""
        if self.is_expression:
            raise ValueError(f"{self.name} says itself what it is made with; it takes no {next(iter(options))!r}")
        return replace(self, options={**self.options, **options})

    def set_option(self, key: str, text: str, inside: str) -> Self:
        """The same model with an option read from text; what a model does not take, it refuses itself."""
        value = parse(Option, text, f"{inside}.{key}")
        try:
            changed = self.with_options(**{key: value})
            with torch.device("meta"):
                replace(changed, weights=None).build(classes=2)
        except (TypeError, ValueError) as error:
            raise RecipeError(f"{inside}.{key}: {error}") from error
        return changed


class Network(Model):
    """A registered generator or discriminator and what it is made with; on a command line ``--set model.width=16``."""

    def build(self, classes: int = 0) -> nn.Module:
        return self._start()


def _expression_in(file: str) -> str:
    """What builds the network whose weights a file holds."""
    metadata = read_metadata(_require_file(file))
    if "model" not in metadata:
        raise ValueError(f"{file} does not say which model it holds; name that, and give the file as weights")
    return metadata["model"]


def _sha256(file: str) -> str:
    with _require_file(file).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _require_file(file: str) -> Path:
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file} of weights to start from")
    return Path(file)


def with_model(recipe: AnyRecipe, name: str) -> AnyRecipe:
    """The same recipe for another model with the same options."""
    changed: dict[str, Any] = {"model": replace(recipe.model, name=name)}  # type: ignore[attr-defined]
    return replace(recipe, **changed)


def without_first_weights(recipe: AnyRecipe) -> AnyRecipe:
    """The recipe for networks whose weights come from a checkpoint: the files that they started from may be gone."""
    models = {field.name: getattr(recipe, field.name) for field in fields(recipe)}
    changes: dict[str, Any] = {
        name: replace(value, weights=None) for name, value in models.items() if isinstance(value, Model)
    }
    return replace(recipe, **changes)
