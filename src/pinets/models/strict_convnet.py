r"""Small convolutional polynomials: blocks of convolutions, batch norms and one product, with average pooling.

Each block is one step and doubles the degree. Batch norm is affine at inference and pooling takes averages, so the
network is a polynomial of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets.layers.build import check_at_least_one
from pinets.models.parts import Classifier, choose
from pinets.models.registry import register
from pinets.models.residual import convolution
from pinets.polynomial import Step

__all__ = ["ProductBlock", "ReluBlock", "SigmoidScale", "SquareBlock", "SquareReluBlock", "StrictConvNet"]


class SigmoidScale(nn.Module):
    r"""Multiply each channel by :math:`\sigma(s)`, a learnt number between 0 and 1 that starts at one half.

    Args:
        channels: Number of channels.

    Example:
        >>> SigmoidScale(2)(torch.ones(1, 2, 1, 1)).flatten().tolist()
        [0.5, 0.5]
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.empty(channels, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.sigmoid() * x


class ProductBlock(nn.Module):
    r""":math:`\mathrm{BN}(u * v + u)` with :math:`u = \mathrm{BN}(U x)` and :math:`v = \mathrm{BN}(V x)`.

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that come out.
        scaled: Whether a :class:`SigmoidScale` makes the product smaller before u is added, as PolyNeXt does.

    Example:
        >>> ProductBlock(3, 8)(torch.randn(2, 3, 16, 16)).shape
        torch.Size([2, 8, 16, 16])
    """

    def __init__(self, in_channels: int, out_channels: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.step = Step(
            gate=normalised_conv(in_channels, out_channels),  # u
            body=normalised_conv(in_channels, out_channels),  # v
            norm=SigmoidScale(out_channels) if scaled else None,
            carry={"gate": nn.Identity()},
        )
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.step(x, x))


class ReluBlock(nn.Module):
    r"""The twin of :class:`ProductBlock` with ReLU in place of the product: :math:`\mathrm{BN}(\max(v, 0) + u)`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.shortcut = normalised_conv(in_channels, out_channels)  # u
        self.branch = normalised_conv(in_channels, out_channels)  # v
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.branch(x).relu() + self.shortcut(x))


class GainBatchNorm(nn.BatchNorm2d):
    """Batch norm whose scale starts at ``gain``."""

    def __init__(self, channels: int, gain: float) -> None:
        self.gain = gain
        super().__init__(channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.weight, self.gain)


class SquareBlock(nn.Module):
    r""":math:`\mathrm{BN}(u * u) + u` with :math:`u = \mathrm{BN}(U x)`: the square and u are normalised apart.

    One convolution for a doubled degree, where :class:`ProductBlock` has two. The norms start with scales of 1/2 and 1,
    near the ratio of ReLU's second and first Hermite coefficients; a branch of a residual block has half of both.

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that come out.
        gain: Factor of the scales at the start.

    Example:
        >>> SquareBlock(3, 8)(torch.randn(2, 3, 16, 16)).shape
        torch.Size([2, 8, 16, 16])
    """

    def __init__(self, in_channels: int, out_channels: int, *, gain: float = 1.0) -> None:
        super().__init__()
        self.view = normalised_conv(in_channels, out_channels, gain)  # u
        self.step = Step(nn.Identity(), norm=GainBatchNorm(out_channels, gain / 2), carry={"gate": nn.Identity()})

    def forward(self, x: Tensor) -> Tensor:
        u = self.view(x)
        return self.step(u, u)


class SquareReluBlock(nn.Module):
    r"""The twin of :class:`SquareBlock` with ReLU in place of the square: :math:`\mathrm{BN}(\max(u, 0)) + u`."""

    def __init__(self, in_channels: int, out_channels: int, *, gain: float = 1.0) -> None:
        super().__init__()
        self.view = normalised_conv(in_channels, out_channels, gain)  # u
        self.norm = GainBatchNorm(out_channels, gain / 2)

    def forward(self, x: Tensor) -> Tensor:
        u = self.view(x)
        return self.norm(u.relu()) + u


class ResidualBlock(nn.Module):
    """A block of as many channels as its input, added to the input."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


class StrictConvNet(Classifier):
    """Blocks with average pooling between them, averages of the last map, and a linear classifier.

    Args:
        blocks: In order; each but the last is followed by pooling.
        num_features: Channels of the last block.
        num_classes: Outputs; 0 for none, so that the network returns its pooled features.
        cells: The last map is averaged over each of ``cells`` x ``cells`` cells; 1 for one average of the whole map.
        mirror: Whether evaluation takes the average over the image and its mirror image.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        *,
        num_features: int,
        num_classes: int,
        cells: int = 1,
        mirror: bool = False,
    ) -> None:
        super().__init__()
        self.mirror = mirror
        self.blocks = nn.ModuleList(blocks)
        self.pool = nn.AvgPool2d(2)
        self.cells = cells
        self.num_features = num_features * cells**2
        self.reset_classifier(num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        """The map of features after the last block."""
        if self.mirror and not self.training:
            return (self._features(x) + self._features(x.flip(-1)).flip(-1)) / 2
        return self._features(x)

    def _features(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x if number == 0 else self.pool(x))
        return x

    def pooled(self, x: Tensor) -> Tensor:
        return super().pooled(x) if self.cells == 1 else F.adaptive_avg_pool2d(x, self.cells).flatten(1)


def strict_convnet(
    *,
    widths: Sequence[int] = (32, 64, 128, 128),
    num_classes: int = 10,
    in_channels: int = 3,
    block: Literal["product", "scaled", "relu"] = "product",
    cells: int = 1,
) -> StrictConvNet:
    """A small convolutional polynomial of the image, or its twin with ReLU.

    Args:
        widths: The channels of each block; the degree is 2 to the power of their number.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        block: ``"product"`` for :class:`ProductBlock`, ``"scaled"`` for one with a :class:`SigmoidScale`,
            ``"relu"`` for :class:`ReluBlock`.
        cells: The classifier sees the averages of ``cells`` x ``cells`` cells of the last map.

    Example:
        >>> from pinets.algebra import certify
        >>> certify(strict_convnet(widths=(4, 4)), torch.randn(1, 3, 8, 8)).degree
        4
    """
    kinds: dict[str, Callable[[int, int], nn.Module]] = {
        "product": ProductBlock,
        "scaled": partial(ProductBlock, scaled=True),
        "relu": ReluBlock,
    }
    make = choose(block, kinds, "block")
    _check_widths(widths, in_channels)
    check_at_least_one("cells", cells)
    sizes = zip((in_channels, *widths[:-1]), widths, strict=True)
    blocks = [make(narrow, wide) for narrow, wide in sizes]
    return StrictConvNet(blocks, num_features=widths[-1], num_classes=num_classes, cells=cells)


def strict_resnet(
    *,
    widths: Sequence[int] = (32, 64, 192, 256),
    depths: Sequence[int] = (1, 2, 2, 2),
    num_classes: int = 10,
    in_channels: int = 3,
    block: Literal["square", "relu"] = "square",
    mirror: bool = False,
) -> StrictConvNet:
    """A deeper convolutional polynomial of the image, of squares in residual blocks, or its twin with ReLU.

    Args:
        widths: The channels of each stage.
        depths: The blocks of each stage, of which all but the first are residual; the degree is 2 to the power of
            their sum.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        block: ``"square"`` for :class:`SquareBlock`, ``"relu"`` for :class:`SquareReluBlock`.
        mirror: Whether evaluation takes the average over the image and its mirror image, in twice the time.

    Example:
        >>> from pinets.algebra import certify
        >>> certify(strict_resnet(widths=(4, 4), depths=(1, 2)), torch.randn(1, 3, 8, 8)).degree
        8
    """
    make = choose(block, {"square": SquareBlock, "relu": SquareReluBlock}, "block")
    _check_widths(widths, in_channels)
    if len(depths) != len(widths) or min(depths) < 1:
        raise ValueError(f"depths must have {len(widths)} numbers like widths, each at least 1, got {tuple(depths)}")
    stages = [
        nn.Sequential(make(narrow, wide), *(ResidualBlock(make(wide, wide, gain=0.5)) for _ in range(depth - 1)))
        for narrow, wide, depth in zip((in_channels, *widths[:-1]), widths, depths, strict=True)
    ]
    return StrictConvNet(stages, num_features=widths[-1], num_classes=num_classes, mirror=mirror)


def normalised_conv(in_channels: int, out_channels: int, gain: float = 1.0) -> nn.Sequential:
    """A 3x3 convolution and a batch norm."""
    return nn.Sequential(convolution(in_channels, out_channels, 3), GainBatchNorm(out_channels, gain))


def _check_widths(widths: Sequence[int], in_channels: int) -> None:
    if not widths or min(widths) < 1:
        raise ValueError(f"widths must have at least one number, each at least 1, got {tuple(widths)}")
    check_at_least_one("in_channels", in_channels)


_STRICT = partial(register, build=strict_convnet, input_shape=(3, 32, 32), toy={"widths": (4, 8)})

_STRICT("strict_convnet", summary="a small convolutional polynomial of degree 16, certified: blocks BN(u * v + u)")
_STRICT("strict_convnet_relu", block="relu", summary="the twin of strict_convnet, with ReLU")

_RESNET = partial(register, build=strict_resnet, input_shape=(3, 32, 32), toy={"widths": (4, 8), "depths": (1, 2)})

_RESNET("strict_resnet", summary="a convolutional polynomial of degree 128, certified: residual blocks BN(u * u) + u")
_RESNET("strict_resnet_relu", block="relu", summary="the twin of strict_resnet, with ReLU")
