r"""PiNet-18: ResNet18 whose blocks add a normalised product, :math:`s + r + \mathrm{BN}(s * r)`.

Without activations it reaches 64-65 % on ImageNet, where ResNet18 without activations reaches 18 %. As published it
still has a max-pool, which is not a polynomial; ``pool="average"`` makes it one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import nn

from pinets.models.blocks import BasicBlock
from pinets.models.choices import ACTIVATIONS, ActivationName, choose
from pinets.models.product import normalised_product
from pinets.models.registry import register
from pinets.models.resnet import ResNet, resnet_imagenet

__all__ = ["pinet18"]

_POOLS = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}


def pinet18(
    *,
    conv: bool,
    activation: ActivationName = "none",
    pool: Literal["max", "average"] = "max",
    depths: Sequence[int] = (2, 2, 2, 2),
    num_classes: int = 1000,
    in_channels: int = 3,
    width: int = 64,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ResNet:
    """PiNet-18 for images of ImageNet's size.

    Args:
        conv: Whether the product goes through a 1x1 convolution before it is normalised.
        activation: ``"none"``, or ``"relu"`` wherever ResNet18 has one.
        pool: The pooling after the first convolution.
        depths: The number of blocks in each stage.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """
    return resnet_imagenet(
        block=BasicBlock,
        depths=depths,
        num_classes=num_classes,
        in_channels=in_channels,
        width=width,
        join=partial(normalised_product, conv=conv),
        activation=choose(activation, ACTIVATIONS, "activation"),
        maxpool=choose(pool, _POOLS, "pool")(3, stride=2, padding=1),
        device=device,
        dtype=dtype,
    )


_PINET = partial(register, build=pinet18, input_shape=(3, 224, 224), toy={"width": 4, "depths": (1, 2)})

_PINET("pinet18", conv=False, summary="PiNet-18 without activations")
_PINET("pinet18_1x1", conv=True, summary="PiNet-18 with 1x1 convolutions on the products, without activations")
_PINET("pinet18_relu", conv=False, activation="relu", summary="PiNet-18 with ReLU")
_PINET("pinet18_1x1_relu", conv=True, activation="relu", summary="PiNet-18 with 1x1 convolutions, with ReLU")
