"""What several networks share: small layers that torch lacks, the classifier, starting anew, choices by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from pinets._nearest import did_you_mean

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "ActivationName",
    "Bias",
    "LastAxisBatchNorm",
    "SilentBatchNorm",
    "choose",
    "make_classifier",
    "relu",
    "reset_layers",
]

Activation = Callable[[], nn.Module]
ActivationName = Literal["none", "relu"]
Choice = TypeVar("Choice")

relu: Activation = partial(nn.ReLU, inplace=True)
ACTIVATIONS: dict[str, Activation] = {"none": nn.Identity, "relu": relu}


def choose(name: str, options: Mapping[str, Choice], what: str) -> Choice:
    """The option of that name, or an error that lists the options.

    >>> choose("relu", ACTIVATIONS, "activation")()
    ReLU(inplace=True)
    """
    if name not in options:
        raise ValueError(f"{what} must be one of {', '.join(options)}, got {name!r}{did_you_mean(str(name), options)}")
    return options[name]


class Bias(nn.Module):
    """Add a learnt bias to the last axes; it starts at zero.

    Args:
        shape: Shape of the bias: the features of a vertex, or a whole map (the paper's bias of the state's size).
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class LastAxisBatchNorm(nn.BatchNorm1d):
    """Batch norm of features on the last axis, with statistics over all other axes.

    Example:
        >>> LastAxisBatchNorm(4)(torch.randn(2, 10, 4)).shape
        torch.Size([2, 10, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(0, -2)).view_as(input)


class SilentBatchNorm(nn.BatchNorm2d):
    """Batch norm whose scale starts at zero, and so its output.

    Example:
        >>> SilentBatchNorm(4)(torch.randn(2, 4, 3, 3)).abs().max().item()
        0.0
    """

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.weight)


def make_classifier(num_features: int, num_classes: int, *, like: Tensor) -> nn.Module:
    """A linear map from features to classes, initialised as torch does; the identity for 0 classes.

    Args:
        num_features: Size of the features.
        num_classes: Number of outputs; 0 for no classifier.
        like: A weight of the network, whose device and type the classifier gets.

    Example:
        >>> make_classifier(8, 10, like=torch.zeros(1)), make_classifier(8, 0, like=torch.zeros(1))
        (Linear(in_features=8, out_features=10, bias=True), Identity())
    """
    if num_classes < 0:
        raise ValueError(f"num_classes must be at least 0, got {num_classes}")
    if num_classes == 0:
        return nn.Identity()
    return nn.Linear(num_features, num_classes).to(device=like.device, dtype=like.dtype)


def reset_layers(network: nn.Module) -> None:
    """Call ``reset_parameters`` of every layer, in the order in which the layers were made.

    A layer that has ``reset_parameters``, as torch's layers have, resets its own children.

    Example:
        >>> network = nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(nn.PReLU()))
        >>> _ = nn.init.zeros_(network[1][0].weight)
        >>> reset_layers(network)
        >>> network[1][0].weight.item()
        0.25
    """
    for layer in network.children():
        reset = getattr(layer, "reset_parameters", None)
        if reset is None:
            reset_layers(layer)
        else:
            reset()
