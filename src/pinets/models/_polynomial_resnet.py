r"""Residual classifiers that are polynomials of the image: ``pinets certify`` accepts them.

They have no activation and no max-pool, only batch norm (affine at inference) and average pool. A block is
:math:`s + r + \alpha\,\mathrm{BN}(W (s * r))` and doubles the degree: :math:`2^8` for eight blocks. R-PolyNets
contribute what keeps the network a polynomial at inference: :math:`\alpha` from 0, DropBlock after the first stages
while training, and a wide initialisation. In place of their mixed instance norm stands batch norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from pinets.models.parts import ACTIVATIONS, ActivationName, choose
from pinets.models.registry import register
from pinets.models.residual import BasicBlock, Site, convolution, scaled_product
from pinets.models.resnet import ResNet, small_stem

__all__ = ["DropBlock", "polynomial_resnet"]


class DropBlock(nn.Module):
    """Dropout of squares: while training, set squares of each channel to zero and scale up the rest.

    Args:
        size: Side of the squares, at most that of the map.
        rate: The share of a map that is dropped, on average.
    """

    def __init__(self, size: int = 7, rate: float = 0.1) -> None:
        super().__init__()
        if size < 1 or not 0 <= rate < 1:
            raise ValueError(f"size must be at least 1 and rate in [0, 1), got size={size} and rate={rate}")
        self.size = size
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        height, width = x.shape[-2:]
        size = min(self.size, height, width)
        rows, columns = height - size + 1, width - size + 1  # possible positions of a square's corner
        corners = x.new_empty(*x.shape[:2], rows, columns).bernoulli_(
            self.rate * height * width / (size**2 * rows * columns)
        )
        dropped = F.max_pool2d(F.pad(corners, [size - 1] * 4), size, stride=1)
        kept = 1 - dropped
        return x * kept * (kept.numel() / kept.sum().clamp(min=1))

    def extra_repr(self) -> str:
        return f"size={self.size}, rate={self.rate}"


def polynomial_resnet(
    *,
    depths: Sequence[int] = (2, 2, 2, 2),
    num_classes: int = 10,
    in_channels: int = 3,
    width: int = 64,
    activation: ActivationName = "none",
    drop: float = 0.1,
    drop_size: int = 7,
) -> ResNet:
    """A residual polynomial for images of CIFAR's size.

    Args:
        depths: Number of blocks in each stage; the degree is 2 to the power of their sum.
        num_classes: Number of outputs; 0 for no classifier.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        activation: ``"none"``; ``"relu"`` makes the twin network with activations.
        drop: The rate of DropBlock after the first two stages, while training.
        drop_size: The side of its squares.

    Example:
        >>> import torch
        >>> from pinets.algebra import certify
        >>> model = polynomial_resnet(depths=(1, 1), width=4)
        >>> for block in (model.layer1[0], model.layer2[0]):
        ...     _ = nn.init.ones_(block.join.step.norm[-1].alpha)
        >>> certify(model, torch.randn(1, 3, 8, 8)).degree
        4
    """
    return ResNet(
        BasicBlock,
        depths,
        num_classes=num_classes,
        width=width,
        conv1=small_stem(in_channels),
        maxpool=nn.Identity(),
        join=partial(scaled_product, layers=_mixed),
        activation=choose(activation, ACTIVATIONS, "activation"),
        after_stage=[DropBlock(drop_size, drop) for _ in depths[:2]],
        draw=_draw_wide,
    )


def _mixed(site: Site) -> list[nn.Module]:
    """A 1x1 convolution and a batch norm."""
    return [convolution(site.channels, site.channels, 1), nn.BatchNorm2d(site.channels)]


def _draw_wide(weight: Tensor) -> Tensor:
    """Draw from N(0, 16 / fan_in). Batch norms undo the scale, so updates are smaller relative to the weights."""
    return nn.init.normal_(weight, std=4 / math.sqrt(weight[0].numel()))


_POLYNOMIAL = partial(register, build=polynomial_resnet, input_shape=(3, 32, 32), toy={"width": 4, "depths": (1, 2)})

_POLYNOMIAL("polynomial_resnet_cifar", summary="a residual classifier that is a polynomial of the image, certified")
_POLYNOMIAL("polynomial_resnet_cifar_relu", activation="relu", summary="the twin of polynomial_resnet_cifar, with ReLU")
