"""The equalised learning rate: weights are kept at one size and scaled where they are used."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.utils import parametrize

__all__ = ["Scaled", "equalize"]


class Scaled(nn.Module):
    """A parametrisation: what is used is what is kept times a constant."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, kept: Tensor) -> Tensor:
        return self.scale * kept

    def right_inverse(self, used: Tensor) -> Tensor:
        return used / self.scale

    def extra_repr(self) -> str:
        return f"{self.scale:.4g}"


def equalize(layer: nn.Linear | nn.Conv2d, *, gain: float = math.sqrt(2), multiplier: float = 1.0) -> nn.Module:
    r"""Keep the weight divided by :math:`c = \mathrm{gain} \cdot \mathrm{multiplier} / \sqrt{\mathrm{fan\ in}}`.

    An optimiser that makes steps of one size, such as Adam, then changes the weights of all layers alike relative to
    their size; with a multiplier below 1 more slowly. What the layer computes stays as it is.

    Example:
        >>> import torch
        >>> layer, x = nn.Linear(64, 8), torch.randn(2, 64)
        >>> before = layer(x)
        >>> bool(torch.allclose(equalize(layer)(x), before, atol=1e-6))
        True
    """
    scale = gain * multiplier / math.sqrt(layer.weight[0].numel())
    parametrize.register_parametrization(layer, "weight", Scaled(scale))
    if layer.bias is not None and multiplier != 1:
        parametrize.register_parametrization(layer, "bias", Scaled(multiplier))
    return layer
