"""Arguments given by name, for recipes and command lines; classes take the modules themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeVar

from torch import nn

from pinets._nearest import did_you_mean

__all__ = ["ACTIVATIONS", "Activation", "ActivationName", "choose", "relu"]

Activation = Callable[[], nn.Module]
ActivationName = Literal["none", "relu"]
Choice = TypeVar("Choice")

relu: Activation = partial(nn.ReLU, inplace=True)
ACTIVATIONS: dict[str, Activation] = {"none": nn.Identity, "relu": relu}


def choose(name: str, options: Mapping[str, Choice], what: str) -> Choice:
    """The option of that name, or an error that says which there are.

    >>> choose("relu", ACTIVATIONS, "activation")()
    ReLU(inplace=True)
    """
    if name not in options:
        raise ValueError(f"{what} must be one of {', '.join(options)}, got {name!r}{did_you_mean(str(name), options)}")
    return options[name]
