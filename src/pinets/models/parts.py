"""Parts of several networks: small layers that torch lacks, the classifier, initialisation, choices by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from pinets._nearest import did_you_mean

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "ActivationName",
    "Bias",
    "Classifier",
    "LastAxisBatchNorm",
    "Silent",
    "SilentBatchNorm",
    "choose",
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


class Silent(nn.modules.batchnorm._NormBase):
    """A norm whose scale starts at zero, and so its output: to be mixed into one of torch's."""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.weight)


class SilentBatchNorm(Silent, nn.BatchNorm2d):
    """Batch norm whose scale starts at zero.

    Example:
        >>> SilentBatchNorm(4)(torch.randn(2, 4, 3, 3)).abs().max().item()
        0.0
    """


class Classifier(nn.Module):
    """Features of an image and a linear classifier on them, ``fc``, with the methods that timm's networks have.

    A subclass sets ``num_features``, calls :meth:`reset_classifier` and writes :meth:`forward_features`; also
    :meth:`pooled`, where it is not the average of a map.
    """

    num_features: int
    num_classes: int
    fc: nn.Module

    def reset_parameters(self) -> None:
        """Draw every parameter anew, as for a network built with the same seed."""
        reset_layers(self)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the classifier by a fresh one, initialised as torch does; 0 classes for none."""
        if isinstance(num_classes, bool) or not isinstance(num_classes, Integral):
            raise TypeError(f"num_classes must be an int, got {num_classes!r} of type {type(num_classes).__name__}")
        if num_classes < 0:
            raise ValueError(f"num_classes must be at least 0, got {num_classes}")
        self.num_classes = num_classes
        weight = next(self.parameters())
        fresh = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()
        self.fc = fresh.to(device=weight.device, dtype=weight.dtype)

    def forward_features(self, x: Tensor) -> Tensor:
        """The map of features after the last stage."""
        raise NotImplementedError

    def pooled(self, x: Tensor) -> Tensor:
        """The map of features as one vector for each image."""
        return x.mean((2, 3))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """From the map of features to the outputs, or to the pooled features that the classifier sees."""
        x = self.pooled(x)
        return x if pre_logits else self.fc(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def extra_repr(self) -> str:
        return f"num_features={self.num_features}, num_classes={self.num_classes}"


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
