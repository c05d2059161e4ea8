r"""Prodpoly-IR-ResNet: blocks :math:`s + r + \mathrm{BN}(W \tanh(s * r))`, with :math:`W` a 1x1 convolution.

The scale of the batch norm starts at 0, so a fresh network, or one that was given the weights of an IR-ResNet
(:mod:`pinets.models.insightface`), computes what the baseline does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from pinets.models.blocks import convolution
from pinets.models.iresnet import IResNet, iresnet, register_embedding
from pinets.models.join import Multiply, Site
from pinets.models.parts import SilentBatchNorm
from pinets.models.tanh import Tanh

__all__ = ["mixed_tanh_product", "prodpoly_iresnet"]


def mixed_tanh_product(site: Site) -> Multiply:
    r"""The join :math:`s + r + \mathrm{BN}(W \tanh(s * r))`."""
    norm = SilentBatchNorm(site.channels, **site.factory)
    mix = convolution(site.channels, site.channels, 1, site.factory)
    return Multiply(nn.Sequential(Tanh(inplace=True), mix, norm), site.activation())


def prodpoly_iresnet(
    *,
    depths: Sequence[int] = (3, 4, 14, 3),
    width: int = 64,
    embedding: int = 512,
    size: int = 112,
    in_channels: int = 3,
    dropout: float = 0.4,
    eps: float = 2e-5,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> IResNet:
    """A Prodpoly-IR-ResNet; the arguments are those of :class:`pinets.models.iresnet.IResNet`.

    Example:
        >>> model = prodpoly_iresnet(depths=(1, 1), width=8, embedding=16, size=32).eval()
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 16])
    """
    return iresnet(
        depths=depths,
        width=width,
        embedding=embedding,
        size=size,
        in_channels=in_channels,
        dropout=dropout,
        eps=eps,
        join=mixed_tanh_product,
        device=device,
        dtype=dtype,
    )


_PRODPOLY = partial(register_embedding, build=prodpoly_iresnet)

_PRODPOLY("prodpoly_iresnet18", depths=(2, 2, 2, 2), summary="Prodpoly-IR-ResNet18, embeds faces")
_PRODPOLY("prodpoly_iresnet34", depths=(3, 4, 6, 3), summary="Prodpoly-IR-ResNet34, embeds faces")
_PRODPOLY("prodpoly_iresnet50", summary="Prodpoly-IR-ResNet50, embeds faces; 4 % more parameters than the baseline")
