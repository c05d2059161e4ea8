r"""Prodpoly-IR-ResNet: blocks :math:`s + r + \mathrm{BN}(W \tanh(s * r))`, with :math:`W` a 1x1 convolution.

The scale of the batch norm starts at 0, so a fresh network, or one that was given the weights of an IR-ResNet
(:mod:`pinets.models.insightface`), computes what the baseline does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from pinets.models.blocks import convolution
from pinets.models.iresnet import IResNet, iresnet
from pinets.models.join import Multiply, Site
from pinets.models.parts import SilentBatchNorm
from pinets.models.registry import register
from pinets.models.tanh import Tanh

__all__ = ["mixed_tanh_product", "prodpoly_iresnet"]


def mixed_tanh_product(site: Site) -> Multiply:
    r"""The join :math:`s + r + \mathrm{BN}(W \tanh(s * r))`."""
    norm = SilentBatchNorm(site.channels, **site.factory)
    mix = convolution(site.channels, site.channels, 1, site.factory)
    return Multiply(nn.Sequential(Tanh(inplace=True), mix, norm), nn.Identity())


def prodpoly_iresnet(**arguments: Any) -> IResNet:
    """A Prodpoly-IR-ResNet; the arguments are those of :func:`pinets.models.iresnet.iresnet`.

    Example:
        >>> import torch
        >>> arguments = {"depths": (1, 1), "width": 8, "embedding": 16, "size": 32}
        >>> prodpoly_iresnet(**arguments).eval()(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 16])
    """
    return iresnet(join=mixed_tanh_product, **arguments)


_FACES = partial(
    register,
    build=iresnet,
    join=mixed_tanh_product,
    task="faces",
    input_shape=(3, 112, 112),
    toy={"width": 8, "depths": (1, 2), "embedding": 16, "size": 32},
)

_FACES("prodpoly_iresnet18", depths=(2, 2, 2, 2), summary="Prodpoly-IR-ResNet18, embeds faces")
_FACES("prodpoly_iresnet34", depths=(3, 4, 6, 3), summary="Prodpoly-IR-ResNet34, embeds faces")
_FACES("prodpoly_iresnet50", summary="Prodpoly-IR-ResNet50, embeds faces; 4 % more parameters than the baseline")
