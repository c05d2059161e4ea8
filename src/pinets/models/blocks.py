"""Residual blocks, with the attribute names of torchvision's so that its weights fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pinets.models.choices import Activation
from pinets.models.join import JoinMaker, Site

__all__ = ["BasicBlock", "Bottleneck", "ResidualBlock", "convolution"]


class ResidualBlock(nn.Module):
    """A shortcut and a branch, put together by a join.

    The branch's last normalisation is not run by the block but handed to the join (:mod:`pinets.models.join`).

    Args:
        in_channels: Channels that come in.
        channels: Channels inside; ``channels * expansion`` come out.
        stride: By how much the block reduces height and width.
        join: Makes the join, given where it sits.
        activation: Makes the activations; ``nn.Identity`` for none.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """

    expansion = 1
    conv1: nn.Conv2d

    def __init__(
        self,
        in_channels: int,
        channels: int,
        *,
        stride: int,
        join: JoinMaker,
        activation: Activation,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.out_channels = channels * self.expansion
        identity = stride == 1 and in_channels == self.out_channels
        self.add_branch(in_channels, channels, stride, factory)
        self.relu = activation()  # torchvision's name, whatever the activation
        self.downsample = None if identity else projection(in_channels, self.out_channels, stride, factory)
        self.join = join(Site(self.out_channels, identity, activation, factory))

    def add_branch(self, in_channels: int, channels: int, stride: int, factory: dict[str, Any]) -> None:
        """Register the convolutions and normalisations of the branch."""
        raise NotImplementedError

    def shortcut(self, x: Tensor) -> Tensor:
        return x if self.downsample is None else self.downsample(x)


class BasicBlock(ResidualBlock):
    """Two 3x3 convolutions; the arguments are those of :class:`ResidualBlock`."""

    def add_branch(self, in_channels: int, channels: int, stride: int, factory: dict[str, Any]) -> None:
        self.conv1 = convolution(in_channels, channels, 3, factory, stride)
        self.bn1 = nn.BatchNorm2d(channels, **factory)
        self.conv2 = convolution(channels, channels, 3, factory)
        self.bn2 = nn.BatchNorm2d(channels, **factory)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.join(self.shortcut(x), self.conv2(out), self.bn2)


class Bottleneck(ResidualBlock):
    """A 1x1 convolution to fewer channels, a 3x3 with the stride, a 1x1 back; arguments as :class:`ResidualBlock`."""

    expansion = 4

    def add_branch(self, in_channels: int, channels: int, stride: int, factory: dict[str, Any]) -> None:
        self.conv1 = convolution(in_channels, channels, 1, factory)
        self.bn1 = nn.BatchNorm2d(channels, **factory)
        self.conv2 = convolution(channels, channels, 3, factory, stride)
        self.bn2 = nn.BatchNorm2d(channels, **factory)
        self.conv3 = convolution(channels, channels * self.expansion, 1, factory)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion, **factory)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.join(self.shortcut(x), self.conv3(out), self.bn3)


def convolution(in_channels: int, out_channels: int, size: int, factory: dict[str, Any], stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps height and width, apart from the stride."""
    return nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False, **factory)


def projection(in_channels: int, out_channels: int, stride: int, factory: dict[str, Any]) -> nn.Sequential:
    """The shortcut where shapes change."""
    return nn.Sequential(
        convolution(in_channels, out_channels, 1, factory, stride), nn.BatchNorm2d(out_channels, **factory)
    )
