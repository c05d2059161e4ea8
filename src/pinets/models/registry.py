"""Models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from pinets._files import PathLike
from pinets._nearest import did_you_mean
from pinets.layers.build import check_at_least_one

__all__ = ["ModelEntry", "build_model", "create_model", "list_models", "model_entry", "register"]


@dataclass(frozen=True)
class ModelEntry:
    """A registered model.

    Attributes:
        name: Its name for :func:`create_model`.
        build: Builds the model; its defaults are those of the paper.
        summary: One line about it.
        input_shape: The shape of one input, without the batch.
        toy: Arguments for a version small enough for a first look, or for a test.
        task: Its task, such as ``"classification"``.
    """

    name: str
    build: Callable[..., nn.Module]
    summary: str
    input_shape: tuple[int, ...]
    toy: Mapping[str, Any] = field(default_factory=dict)
    task: str = "classification"


_ENTRIES: dict[str, ModelEntry] = {}
_MAY_BE_ZERO = ("num_classes", "local_convs")  # checked where they are used; all other whole numbers are sizes


def register(
    name: str,
    build: Callable[..., nn.Module],
    *,
    summary: str,
    input_shape: tuple[int, ...],
    toy: Mapping[str, Any] | None = None,
    task: str = "classification",
    **defaults: Any,
) -> None:
    """Make ``create_model(name, ...)`` call ``build(**defaults, ...)``."""
    if name in _ENTRIES:
        raise ValueError(f"there already is a model named {name!r}")
    _ENTRIES[name] = ModelEntry(name, partial(build, **defaults), summary, input_shape, dict(toy or {}), task)


def list_models(task: str | None = None) -> list[str]:
    """The names of all registered models, or of those for one task.

    >>> "prodpoly_resnet50" in list_models("classification")
    True
    """
    return sorted(name for name, entry in _ENTRIES.items() if task in (None, entry.task))


def model_entry(name: str) -> ModelEntry:
    """The entry of a registered model.

    >>> model_entry("resnet34_speech").input_shape
    (1, 32, 32)
    """
    if name not in _ENTRIES:
        raise ValueError(f"there is no model named {name!r}{did_you_mean(name, _ENTRIES)}")
    return _ENTRIES[name]


def create_model(name: str, *, pretrained: bool | PathLike = False, **arguments: Any) -> nn.Module:
    """Build a registered model; :func:`list_models` has the names.

    Move it with ``.to(device, dtype)``, or build it under ``torch.device(...)``.

    Args:
        name: Name of the model, or of weights; :func:`~pinets.models.list_weights` has the latter.
        pretrained: With which weights: ``True`` for those of the name, or a name, a file, an address with a checksum,
            or ``"hub:..."`` for a folder or a repository of the hub. The network is then in evaluation mode.
        arguments: Arguments of its builder; the defaults are those of the paper.

    Example:
        >>> model = create_model("prodpoly_resnet18_cifar", num_classes=10, width=16)
        >>> sum(parameter.numel() for parameter in model.parameters())
        378144
    """
    if pretrained is not False:
        from pinets.models.pretrained import pretrained_model

        return pretrained_model(name, pretrained, arguments)
    return build_model(name, **arguments)


def build_model(name: str, **arguments: Any) -> nn.Module:
    """As :func:`create_model`, but never with weights: for names and arguments from a stranger's file."""
    build = model_entry(name).build
    taken = {key: value for key, value in inspect.signature(build).parameters.items() if key not in ("args", "kwargs")}
    for key, value in arguments.items():
        if key not in taken:
            raise TypeError(f"{name} has no argument {key!r}{did_you_mean(key, taken)}")
        if taken[key].annotation == "int" and key not in _MAY_BE_ZERO:
            check_at_least_one(key, value)
    return build(**arguments)
