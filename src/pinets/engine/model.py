"""Networks as values of a recipe, and their layout in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import nn

from pinets import spec
from pinets._storage import checksum, read_metadata
from pinets.convert.weights import load_weights
from pinets.engine.recipe import Recipe
from pinets.engine.values import RecipeError, parse
from pinets.models.registry import build_model

__all__ = ["Model", "Network", "put_channels_last", "with_model", "without_first_weights"]

Option = bool | int | float | tuple[int, ...] | str | None
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)

_DIGEST = "@sha256:"  # between the name of a file and its checksum when the recipe was made
_SAFE_CHANNELS = 16  # as many as numbers in the widest register of a CPU (AVX-512)


@dataclass(frozen=True)
class Model:
    """A registered model with its options, or one from a file.

    Args:
        name: One of ``pinets.models.list_models()``, or an expression of :mod:`pinets.spec`. A safetensors file that
            ``pinets convert`` or ``pinets.spec.save`` wrote becomes the expression in it, and the ``weights``.
        options: Passed to the model's builder; as a change of a recipe ``model.width=16``. An expression takes none.
        weights: A file of weights to start from; its SHA-256 is noted with it, and a file changed since is refused.
    """

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.name.endswith(".safetensors"):
            metadata = read_metadata(_require_file(self.name))
            if "model" not in metadata:
                raise ValueError(
                    f"{self.name} does not say which model it holds; name that, and give the file as weights"
                )
            self._put(name=metadata["model"], weights=self.name)
        if self.is_expression:
            self._put(options={})  # those of the registered model it replaces
        if self.weights is not None and _DIGEST not in self.weights:
            self._put(weights=f"{self.weights}{_DIGEST}{checksum(_require_file(self.weights))}")

    def _put(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_expression(self) -> bool:
        """Whether the name is a call of :mod:`pinets.spec`, arguments included."""
        return "(" in self.name

    def build(self, classes: int) -> nn.Module:
        """The network with its first weights; one from a file gets a new head if the number of classes differs."""
        network = self._start(num_classes=classes)
        if self.is_expression and getattr(network, "num_classes", classes) != classes:
            network.reset_classifier(classes)  # type: ignore[operator]
        return network

    def _start(self, **arguments: Option) -> nn.Module:
        network = (
            spec.build(self.name) if self.is_expression else build_model(self.name, **{**arguments, **self.options})
        )
        if self.weights is not None:
            file, _, digest = self.weights.partition(_DIGEST)
            if digest != (found := checksum(_require_file(file))):
                raise ValueError(f"{file} has changed since the recipe was made: its SHA-256 was {digest}, is {found}")
            load_weights(network, file)
        return network

    def with_options(self, **options: Option) -> Self:
        """The same model with some options changed or added."""
        if self.is_expression:
            raise ValueError(f"{self.name} has its arguments in its name; it takes no {next(iter(options))!r}")
        return replace(self, options={**self.options, **options})

    def set_option(self, key: str, text: str, inside: str) -> Self:
        """The same model with an option read from text; :meth:`check_options` follows when all are set."""
        value = parse(Option, text, f"{inside}.{key}")
        try:
            return self.with_options(**{key: value})
        except ValueError as error:
            raise RecipeError(f"{inside}.{key}: {error}") from error

    def check_options(self) -> None:
        """Let the model refuse options that it does not have, or values that do not fit each other."""
        if not self.is_expression:  # which has none
            with torch.device("meta"):
                replace(self, weights=None).build(classes=2)


class Network(Model):
    """A registered network without classes, such as a generator, with its options."""

    def build(self, classes: int = 0) -> nn.Module:
        return self._start()


def _require_file(file: str) -> Path:
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file} of weights to start from")
    return Path(file)


def with_model(recipe: AnyRecipe, name: str) -> AnyRecipe:
    """The same recipe for another model with the same options."""
    changed: dict[str, Any] = {"model": replace(recipe.model, name=name)}  # type: ignore[attr-defined]
    return replace(recipe, **changed)


def without_first_weights(recipe: AnyRecipe) -> AnyRecipe:
    """The same recipe without files to start from, for networks that get the weights of a checkpoint."""
    values = {field.name: getattr(recipe, field.name) for field in fields(recipe)}
    changes: dict[str, Any] = {
        name: replace(value, weights=None) for name, value in values.items() if isinstance(value, Model)
    }
    return replace(recipe, **changes)


def put_channels_last(network: nn.Module, device: torch.device) -> None:
    """Store weights for images whose channels are last in memory, with which convolutions are faster.

    On CPUs, torch 2.13 writes beyond the end of memory there in the backward pass of strided 1x1 convolutions whose
    channels do not fill a register: fewer than 8 with AVX2, fewer than 16 with AVX-512. The result is a crash or wrong
    numbers, sometimes much later, so such layers are refused on every CPU.
    """
    if device.type == "cpu":
        for name, module in network.named_modules():
            if not isinstance(module, nn.Conv2d) or module.kernel_size != (1, 1) or max(module.stride) == 1:
                continue
            if module.in_channels // module.groups < _SAFE_CHANNELS:
                raise ValueError(
                    f"{name} is a strided 1x1 convolution of {module.in_channels} channels, which torch gets wrong on "
                    f"CPUs with channels last below {_SAFE_CHANNELS}: widen the network, or set channels_last=no"
                )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
