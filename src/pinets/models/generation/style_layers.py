"""The layers of StyleGAN that torch lacks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets.models.generation.equalize import equalize
from pinets.polynomial import Step

__all__ = [
    "AdaIN",
    "Blur",
    "Constant",
    "MinibatchDeviation",
    "NoiseInput",
    "PixelNorm",
    "Row",
    "convolution",
    "linear",
]


class AdaIN(Step):
    r"""A step of NCP whose body ends in an instance norm; :math:`h_k = (A_k w) * n(c(h_{k-1})) + B_k w`.

    The style's shift :math:`B_k w` is of first order in :math:`w`, beside the product.

    Args:
        gate: The scale, :math:`A_k w`.
        shift: :math:`B_k w`.
        body: Convolution, noise, activation and normalisation.
    """

    def __init__(self, gate: nn.Module, shift: nn.Module, body: nn.Module) -> None:
        super().__init__(gate, body)
        self.shift = shift

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return super().forward(z, x) + self.shift(z)


class Row(nn.Module):
    """One of the styles: every step looks at its own."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row

    def forward(self, styles: Tensor) -> Tensor:
        return styles[:, self.row]

    def extra_repr(self) -> str:
        return str(self.row)


class Constant(nn.Module):
    """A learnt map, the same whatever comes in: the start of the synthesis."""

    def __init__(self, channels: int, size: int, factory: dict[str, Any]) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.ones(channels, size, size, **factory))

    def forward(self, styles: Tensor) -> Tensor:
        return self.value.expand(styles.shape[0], -1, -1, -1)


class NoiseInput(nn.Module):
    """Add fresh noise, one map for all channels, as strongly as each channel has learnt to want it; and a bias."""

    def __init__(self, channels: int, factory: dict[str, Any]) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.zeros(channels, 1, 1, **factory))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1, **factory))

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x[:, :1])
        return x + self.strength * noise + self.bias


class PixelNorm(nn.Module):
    """Divide by the root of the mean square over the features."""

    def forward(self, z: Tensor) -> Tensor:
        return z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()


class Blur(nn.Module):
    """The binomial filter 1, 2, 1 along both sides, of every channel by itself."""

    kernel: Tensor

    def __init__(self, factory: dict[str, Any]) -> None:
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0], **factory) / 4
        self.register_buffer("kernel", row[:, None] * row, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        channels = x.shape[1]
        return F.conv2d(x, self.kernel.expand(channels, 1, 3, 3), padding=1, groups=channels)


class MinibatchDeviation(nn.Module):
    """Add a map that tells how much the images of a group differ, so that images that are all alike can be told.

    Args:
        group: How many images, one after the other, make a group.
    """

    def __init__(self, group: int = 4) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        count, _, height, width = x.shape
        # the greatest common divisor, asked for in a way that a batch of any number of groups can be traced
        group = next(size for size in range(self.group, 0, -1) if self.group % size == 0 and count % size == 0)
        groups = x.reshape(count // group, group, -1)
        deviation = (groups.var(dim=1, correction=0) + 1e-8).sqrt().mean(dim=1)
        told = deviation.repeat_interleave(group)[:, None, None, None].expand(-1, 1, height, width)
        return torch.cat([x, told], dim=1)


def convolution(
    before: int, after: int, size: int, factory: dict[str, Any], *, gain: float = math.sqrt(2), bias: bool = False
) -> nn.Module:
    """A convolution that keeps height and width, with equalised learning rate."""
    layer = nn.Conv2d(before, after, size, padding=size // 2, bias=bias, **factory)
    return _drawn(layer, gain, 1.0, 0.0)


def linear(
    before: int,
    after: int,
    factory: dict[str, Any],
    *,
    gain: float = math.sqrt(2),
    multiplier: float = 1.0,
    bias: float = 0.0,
) -> nn.Module:
    """A linear layer with equalised learning rate, whose bias starts at the given number."""
    return _drawn(nn.Linear(before, after, **factory), gain, multiplier, bias)


def _drawn(layer: nn.Linear | nn.Conv2d, gain: float, multiplier: float, bias: float) -> nn.Module:
    nn.init.normal_(layer.weight, std=gain / math.sqrt(layer.weight[0].numel()))
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)
    return equalize(layer, gain=gain, multiplier=multiplier)
