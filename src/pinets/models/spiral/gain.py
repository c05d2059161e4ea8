"""How the linear maps of a mesh autoencoder start: with values of about the input's size, layer after layer."""

from __future__ import annotations

from torch import nn

from pinets.operators import SpiralConv

__all__ = ["start_with_gain"]


def start_with_gain(linear: SpiralConv | nn.Linear, gain: float = 1.0) -> None:
    """Draw the weights anew: entries of variance 1 come out with variance ``gain``. The bias starts at zero."""
    nn.init.normal_(linear.weight, std=(gain / linear.weight.shape[1]) ** 0.5)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
