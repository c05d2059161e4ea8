"""What residual Π-nets do to the product of shortcut and branch: the ``norm`` slot of their steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from pinets.models.blocks import convolution
from pinets.models.choices import choose
from pinets.models.instance_norm import InstanceNorm
from pinets.models.join import Multiply, Scale, Site
from pinets.models.parts import SilentBatchNorm
from pinets.models.recompute import RecomputingMultiply
from pinets.models.tanh import Tanh

__all__ = [
    "Where",
    "local_layers",
    "local_product",
    "normalised_product",
    "scaled_product",
    "tanh_product",
]

Where = Literal["everywhere", "identity", "projection"]
_SITES: dict[str, Callable[[Site], bool]] = {
    "everywhere": lambda site: True,
    "identity": lambda site: site.identity,
    "projection": lambda site: not site.identity,
}


def tanh_product(site: Site) -> Multiply:
    r"""Join by :math:`\tanh(s * r) + s + r`: bounding the second order stabilises training on ImageNet."""
    return RecomputingMultiply(Tanh(inplace=True), site.activation())


def scaled_product(site: Site, *, layers: Callable[[Site], list[nn.Module]], recompute: bool = False) -> Multiply:
    r"""Join by :math:`\alpha\,\mathrm{layers}(s * r) + s + r`, with :math:`\alpha` from 0.

    Args:
        site: Where the join is to sit.
        layers: Makes what the product goes through, given where.
        recompute: Whether to compute the layers again in the backward pass rather than keep their values. They must
            then treat every sample by itself. Layers without weights do, and are cheap, so they always are.
    """
    made = layers(site)
    cheap = not any(list(layer.parameters()) for layer in made)
    join = RecomputingMultiply if cheap or recompute else Multiply
    return join(nn.Sequential(*made, Scale(inplace=True, **site.factory)), site.activation())


def local_product(site: Site, *, convs: int, where: Where = "everywhere") -> Multiply:
    r"""Join by :math:`\alpha\,L(\cdots L(s * r)) + s + r`, as Prodpoly-ResNet on CIFAR and speech.

    Args:
        site: Where the join is to sit.
        convs: How many :math:`L` (see :func:`local_layers`) follow each other; 0 for none.
        where: In which blocks they sit: everywhere, or only where the shortcut is the identity or a projection.
    """
    if isinstance(convs, bool) or not isinstance(convs, int) or convs < 0:
        raise ValueError(f"local_convs must be a whole number of at least 0, got {convs!r}")
    is_here = choose(where, _SITES, "local_where")
    layers = partial(local_layers, convs=convs if is_here(site) else 0)
    # keeping their values took twice the memory of a block, and more time on CPU
    return scaled_product(site, layers=layers, recompute=True)


def local_layers(site: Site, convs: int) -> list[nn.Module]:
    r""":math:`L` as often as wanted: a 1x1 convolution without bias, an instance norm and a leaky ReLU."""
    layers: list[nn.Module] = []
    for _ in range(convs):
        layers += [
            convolution(site.channels, site.channels, 1, site.factory),
            InstanceNorm(inplace=True),
            nn.LeakyReLU(0.01, inplace=True),
        ]
    return layers


def normalised_product(site: Site, *, conv: bool) -> Multiply:
    r"""Join by :math:`\mathrm{BN}(s * r) + s + r` or :math:`\mathrm{BN}(W (s * r)) + s + r`, as PiNet.

    The scale of the batch norm starts at 0. Starting the branch at 0 instead, a usual trick with ResNets, would make
    the product vanish, and the batch norm divide by the square root of its epsilon.

    Args:
        site: Where the join is to sit.
        conv: Whether there is :math:`W`, a 1x1 convolution.
    """
    norm = SilentBatchNorm(site.channels, **site.factory)
    mix = [convolution(site.channels, site.channels, 1, site.factory)] if conv else []
    return Multiply(nn.Sequential(*mix, norm), site.activation())
