"""What residual Π-nets do to the product of shortcut and branch: the ``norm`` slot of their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from pinets.models.blocks import convolution
from pinets.models.choices import Activation, choose
from pinets.models.instance_norm import InstanceNorm
from pinets.models.join import JoinMaker, Multiply, Scale, Site
from pinets.models.parts import SilentBatchNorm
from pinets.models.recompute import RecomputingMultiply
from pinets.models.tanh import Tanh

__all__ = [
    "Where",
    "local_layers",
    "local_product",
    "normalised_product",
    "scaled_multiply",
    "scaled_product",
    "tanh_product",
]

Where = Literal["everywhere", "identity", "projection"]
_SITES: dict[str, Callable[[Site], bool]] = {
    "everywhere": lambda site: True,
    "identity": lambda site: site.identity,
    "projection": lambda site: not site.identity,
}


def tanh_product(activation: Activation) -> JoinMaker:
    r"""Join by :math:`\tanh(s * r) + s + r`: bounding the second order stabilises training on ImageNet."""
    return lambda site: RecomputingMultiply(Tanh(inplace=True), activation())


def scaled_product(
    activation: Activation, *, layers: Callable[[Site], list[nn.Module]], recompute: bool = False
) -> JoinMaker:
    r"""Join by :math:`\alpha\,\mathrm{layers}(s * r) + s + r`, with :math:`\alpha` from 0.

    Args:
        activation: Makes the activation of the sum.
        layers: Makes what the product goes through, given where.
        recompute: See :func:`scaled_multiply`.
    """
    return lambda site: scaled_multiply(layers(site), activation(), site.factory, recompute=recompute)


def scaled_multiply(
    layers: list[nn.Module], activation: nn.Module, factory: dict[str, Any], *, recompute: bool = False
) -> Multiply:
    r"""The join :math:`\alpha\,\mathrm{layers}(s * r) + s + r`.

    Args:
        layers: What the product goes through.
        activation: What is done to the sum.
        factory: The ``device`` and ``dtype`` of :math:`\alpha`.
        recompute: Whether to compute the layers again in the backward pass rather than keep their values. They must
            then treat every sample by itself. Layers without weights do, and are cheap, so they always are.
    """
    cheap = not any(list(layer.parameters()) for layer in layers)
    join = RecomputingMultiply if cheap or recompute else Multiply
    return join(nn.Sequential(*layers, Scale(inplace=True, **factory)), activation)


def local_product(activation: Activation, *, convs: int, where: Where = "everywhere") -> JoinMaker:
    r"""Join by :math:`\alpha\,L(\cdots L(s * r)) + s + r`, as Prodpoly-ResNet on CIFAR and speech.

    Args:
        activation: Makes the activation of the sum.
        convs: How many :math:`L` (see :func:`local_layers`) follow each other; 0 for none.
        where: In which blocks they sit: everywhere, or only where the shortcut is the identity or a projection.
    """
    if isinstance(convs, bool) or not isinstance(convs, int) or convs < 0:
        raise ValueError(f"local_convs must be a whole number of at least 0, got {convs!r}")
    is_here = choose(where, _SITES, "local_where")
    return scaled_product(
        activation,
        layers=lambda site: local_layers(site.channels, convs if is_here(site) else 0, site.factory),
        recompute=True,  # keeping their values took twice the memory of a block, and more time on CPU
    )


def local_layers(channels: int, convs: int, factory: dict[str, Any]) -> list[nn.Module]:
    r""":math:`L` as often as wanted: a 1x1 convolution without bias, an instance norm and a leaky ReLU."""
    layers: list[nn.Module] = []
    for _ in range(convs):
        layers += [
            convolution(channels, channels, 1, factory),
            InstanceNorm(inplace=True),
            nn.LeakyReLU(0.01, inplace=True),
        ]
    return layers


def normalised_product(activation: Activation, *, conv: bool) -> JoinMaker:
    r"""Join by :math:`\mathrm{BN}(s * r) + s + r` or :math:`\mathrm{BN}(W (s * r)) + s + r`, as PiNet.

    The scale of the batch norm starts at 0. Starting the branch at 0 instead, a usual trick with ResNets, would make
    the product vanish, and the batch norm divide by the square root of its epsilon.
    """

    def make(site: Site) -> Multiply:
        norm = SilentBatchNorm(site.channels, **site.factory)
        mix = [convolution(site.channels, site.channels, 1, site.factory)] if conv else []
        return Multiply(nn.Sequential(*mix, norm), activation())

    return make
