r"""Residual classifiers that are polynomials of the image, strictly: ``pinets certify`` accepts them.

No activation, no max-pool; batch norm only, which is affine once trained; average pool. The blocks are
:math:`s + r + \alpha\,\mathrm{BN}(W (s * r))`, so each doubles the degree: :math:`2^8` for eight of them.
From R-PolyNets come the tricks that leave the network a polynomial at inference: :math:`\alpha` from 0, DropBlock after
the first stages while training, and a wide initialisation. Its mixed instance norm does not, and is batch norm here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from pinets.models.blocks import BasicBlock, convolution
from pinets.models.choices import ACTIVATIONS, ActivationName, choose
from pinets.models.dropblock import DropBlock
from pinets.models.join import Site
from pinets.models.product import scaled_product
from pinets.models.registry import register
from pinets.models.resnet import ResNet, small_stem

__all__ = ["polynomial_resnet"]


def polynomial_resnet(
    *,
    depths: Sequence[int] = (2, 2, 2, 2),
    num_classes: int = 10,
    in_channels: int = 3,
    width: int = 64,
    activation: ActivationName = "none",
    drop: float = 0.1,
    drop_size: int = 7,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ResNet:
    """A residual polynomial for images of CIFAR's size.

    Args:
        depths: The number of blocks in each stage; the degree is 2 to the power of their sum.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        activation: ``"none"``; or ``"relu"`` for its twin, the same network with activations.
        drop: The rate of DropBlock after the first two stages, while training.
        drop_size: The side of its squares.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> from pinets.algebra import certify
        >>> model = polynomial_resnet(depths=(1, 1), width=4)
        >>> for block in (model.layer1[0], model.layer2[0]):
        ...     _ = nn.init.ones_(block.join.step.norm[-1].alpha)
        >>> certify(model, torch.randn(1, 3, 8, 8)).degree
        4
    """
    activate = choose(activation, ACTIVATIONS, "activation")
    return ResNet(
        BasicBlock,
        depths,
        num_classes=num_classes,
        width=width,
        conv1=small_stem(in_channels),
        maxpool=nn.Identity(),
        join=partial(scaled_product, layers=mixed),
        activation=activate,
        after_stage=[DropBlock(drop_size, drop) for _ in depths[:2]],
        draw=draw_wide,
        device=device,
        dtype=dtype,
    )


def mixed(site: Site) -> list[nn.Module]:
    """A 1x1 convolution and a batch norm."""
    return [
        convolution(site.channels, site.channels, 1, site.factory),
        nn.BatchNorm2d(site.channels, **site.factory),
    ]


def draw_wide(weight: Tensor) -> Tensor:
    """Draw from N(0, 16 / fan_in); the batch norms undo the size, and the steps relative to it are smaller."""
    return nn.init.normal_(weight, std=4 / math.sqrt(weight[0].numel()))


_POLYNOMIAL = partial(register, build=polynomial_resnet, input_shape=(3, 32, 32), toy={"width": 4, "depths": (1, 2)})

_POLYNOMIAL("polynomial_resnet_cifar", summary="a residual classifier that is a polynomial of the image, certified")
_POLYNOMIAL("polynomial_resnet_cifar_relu", activation="relu", summary="the twin of polynomial_resnet_cifar, with ReLU")
