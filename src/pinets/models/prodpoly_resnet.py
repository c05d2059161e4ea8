r"""Prodpoly-ResNet, the paper's residual Π-nets: every block multiplies its shortcut with its branch.

On CIFAR and speech, :math:`s + r + \alpha L(L(s * r))` with :math:`\alpha` from 0 (see
:func:`pinets.models.product.local_product`); on ImageNet, :math:`s + r + \tanh(s * r)`. A ReLU follows, as in the
baseline. The blocks are fewer than the baseline's, for the same accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from pinets.models.blocks import Bottleneck
from pinets.models.product import Where, local_product, tanh_product
from pinets.models.registry import register
from pinets.models.resnet import ResNet, resnet_cifar, resnet_imagenet

__all__ = ["prodpoly_resnet_cifar"]


def prodpoly_resnet_cifar(
    *,
    depths: Sequence[int],
    num_classes: int = 10,
    in_channels: int = 3,
    width: int = 64,
    local_convs: int = 2,
    local_where: Where = "everywhere",
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ResNet:
    """A Prodpoly-ResNet for images of CIFAR's size.

    Args:
        depths: The number of blocks in each stage.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        local_convs: How many 1x1 convolutions the product goes through.
        local_where: In which blocks: ``"everywhere"``, or where the shortcut is ``"identity"`` or ``"projection"``.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
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
        device=device,
        dtype=dtype,
    )


_SMALL = partial(register, build=prodpoly_resnet_cifar, input_shape=(3, 32, 32), toy={"width": 4, "depths": (1, 2)})

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
