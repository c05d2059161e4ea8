"""How a network starts anew."""

from __future__ import annotations

from torch import nn

__all__ = ["reset_layers"]


def reset_layers(network: nn.Module) -> None:
    """Let the layers of a network start as they did when they were made, in the same order.

    A layer with a ``reset_parameters``, as torch's have, answers for all that it consists of.

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
