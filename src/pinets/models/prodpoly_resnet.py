r"""Prodpoly-ResNet and PiNet: ResNets whose blocks also multiply their shortcut with their branch.

Prodpoly-ResNet adds :math:`\alpha L(L(s * r))` with :math:`\alpha` from 0 on CIFAR and speech (see
:func:`pinets.models.residual.local_product`) and :math:`\tanh(s * r)` on ImageNet, before the ReLU of the baseline. It
needs fewer blocks than the baseline for the same accuracy.

PiNet-18 adds :math:`\mathrm{BN}(s * r)`. Without activations it reaches 64-65 % on ImageNet, where ResNet18 without
activations reaches 18 %. Its published version has a max-pool, which is not a polynomial; with ``pool="average"`` it is
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from torch import nn

from pinets.models.parts import ACTIVATIONS, ActivationName, choose
from pinets.models.registry import register
from pinets.models.residual import (
    BasicBlock,
    Bottleneck,
    Where,
    local_product,
    normalised_product,
    tanh_product,
)
from pinets.models.resnet import ResNet, resnet_cifar, resnet_imagenet

__all__ = ["pinet18", "prodpoly_resnet_cifar"]


def prodpoly_resnet_cifar(
    *,
    depths: Sequence[int],
    num_classes: int = 10,
    in_channels: int = 3,
    width: int = 64,
    local_convs: int = 2,
    local_where: Where = "everywhere",
) -> ResNet:
    """A Prodpoly-ResNet for images of CIFAR's size.

    Args:
        depths: Number of blocks in each stage.
        num_classes: Number of outputs; 0 for no classifier.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        local_convs: Number of 1x1 convolutions on the product.
        local_where: The blocks that have them: ``"everywhere"``, or those whose shortcut is the ``"identity"`` or a
            ``"projection"``.

    Example:
        >>> import torch
        >>> model = prodpoly_resnet_cifar(depths=(1, 1), width=8)
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    return resnet_cifar(
        depths=depths,
        num_classes=num_classes,
        in_channels=in_channels,
        width=width,
        join=partial(local_product, convs=local_convs, where=local_where),
    )


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
) -> ResNet:
    """PiNet-18 for images of ImageNet's size.

    Args:
        conv: Whether the product goes through a 1x1 convolution before it is normalised.
        activation: ``"none"``, or ``"relu"`` wherever ResNet18 has one.
        pool: The pooling after the first convolution.
        depths: Number of blocks in each stage.
        num_classes: Number of outputs; 0 for no classifier.
        in_channels: Channels of the images.
        width: Channels of the first stage.
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
    )


_SMALL = partial(register, build=prodpoly_resnet_cifar, input_shape=(3, 32, 32), toy={"width": 4, "depths": (1, 2)})
_PINET = partial(register, build=pinet18, input_shape=(3, 224, 224), toy={"width": 4, "depths": (1, 2)})

_SMALL(
    "prodpoly_resnet18_cifar",
    depths=(2, 2, 1, 1),
    summary="Prodpoly-ResNet for CIFAR-10 that matches ResNet18 with 46 % fewer parameters",
)
_SMALL(
    "prodpoly_resnet34_cifar",
    depths=(3, 3, 2, 2),
    summary="Prodpoly-ResNet for CIFAR-10 that matches ResNet34 with 39 % fewer parameters",
)
_SMALL(
    "prodpoly_resnet34_cifar100",
    depths=(3, 4, 3, 2),
    num_classes=100,
    summary="Prodpoly-ResNet for CIFAR-100 that matches ResNet34 with 31 % fewer parameters",
)
_SMALL(
    "prodpoly_resnet34_speech",
    depths=(3, 3, 3, 2),
    in_channels=1,
    num_classes=35,
    local_convs=1,
    local_where="identity",
    input_shape=(1, 32, 32),
    summary="Prodpoly-ResNet for 35 spoken words that matches ResNet34 with 38 % fewer parameters",
)
register(
    "prodpoly_resnet50",
    resnet_imagenet,
    block=Bottleneck,
    depths=(3, 4, 6, 3),
    join=tanh_product,
    input_shape=(3, 224, 224),
    toy={"width": 4, "depths": (1, 2)},
    summary="Prodpoly-ResNet50 for ImageNet: tanh of the product, no further parameters; ResNet50's weights load",
)
_PINET("pinet18", conv=False, summary="PiNet-18 without activations")
_PINET("pinet18_1x1", conv=True, summary="PiNet-18 with 1x1 convolutions on the products, without activations")
_PINET("pinet18_relu", conv=False, activation="relu", summary="PiNet-18 with ReLU")
_PINET("pinet18_1x1_relu", conv=True, activation="relu", summary="PiNet-18 with 1x1 convolutions, with ReLU")
