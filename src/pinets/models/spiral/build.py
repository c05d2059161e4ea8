"""Spiral autoencoders by name: which layer, of which order, with which activation and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import nn

from pinets.mesh.hierarchy import Hierarchy
from pinets.models.choices import choose
from pinets.models.registry import register
from pinets.models.spiral.autoencoder import MeshAutoencoder
from pinets.models.spiral.layers import MakeLayer, full_layer, plain_layer, simple_layer
from pinets.models.spiral.norms import NORMS, MakeNorm

__all__ = ["LAYERS", "LayerName", "NormName", "SpiralActivation", "spiral_autoencoder"]

LayerName = Literal["plain", "ncp", "ncp_skip", "simple"]
NormName = Literal["instance", "batch", "vertex", "none"]
SpiralActivation = Literal["none", "elu"]

LAYERS: dict[str, Callable[[int, MakeNorm], MakeLayer]] = {
    "plain": lambda order, norm: plain_layer,
    "ncp": lambda order, norm: full_layer(order, norm, skip=False),
    "ncp_skip": lambda order, norm: full_layer(order, norm, skip=True),
    "simple": simple_layer,
}
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"none": nn.Identity, "elu": nn.ELU}


def spiral_autoencoder(
    hierarchy: Hierarchy | None = None,
    *,
    layer: LayerName = "plain",
    order: int = 1,
    activation: SpiralActivation = "elu",
    norm: NormName = "instance",
    encoder: Sequence[int] = (3, 16, 16, 16, 32),
    decoder: Sequence[int] = (32, 32, 16, 16, 3),
    latent: int = 16,
    sizes: Sequence[int] = (5023, 1256, 314, 79, 20),
    lengths: Sequence[int] = (9, 9, 9, 9, 8),
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> MeshAutoencoder:
    """A spiral network, or Spiral Π-net, that encodes shapes of one topology as vectors. The defaults are for COMA.

    Args:
        hierarchy: Of the template, from :func:`pinets.mesh.build_hierarchy`. Left out, the network has the right
            weights for the given sizes and lengths, but no vertex has neighbours.
        layer: ``"plain"``, ``"ncp"``, ``"ncp_skip"`` or ``"simple"``.
        order: Of each layer's polynomial; a plain layer has order 1.
        activation: ``"elu"`` after each layer but the last, or ``"none"``.
        norm: Of the products: ``"instance"`` as the paper says, ``"vertex"`` as published code does (a batch norm for
            each feature of each vertex), ``"batch"`` (for each feature), or ``"none"``. The last three are polynomials
            at inference.
        encoder: Widths of the encoder.
        decoder: Widths of the decoder.
        latent: Size of the vector.
        sizes: Vertices at each level, where no hierarchy is given.
        lengths: Of the spirals at each level, where no hierarchy is given.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> model = spiral_autoencoder()
        >>> sum(parameter.numel() for parameter in model.parameters())
        48547
    """
    hierarchy = Hierarchy.blank(sizes, lengths) if hierarchy is None else hierarchy
    if layer == "plain" and order != 1:
        raise ValueError(f"a plain layer has order 1, got {order}; the others are ncp, ncp_skip and simple")
    make = choose(layer, LAYERS, "layer")(order, choose(norm, NORMS, "norm"))

    def on_level(in_features: int, out_features: int, level: int, **where: object) -> nn.Module:
        return make(in_features, out_features, hierarchy.levels[level].spirals, **where)  # type: ignore[arg-type]

    return MeshAutoencoder(
        hierarchy,
        on_level,
        encoder=encoder,
        decoder=decoder,
        latent=latent,
        activation=choose(activation, _ACTIVATIONS, "activation"),
        device=device,
        dtype=dtype,
    )


register(
    "spiral_autoencoder",
    spiral_autoencoder,
    summary="Spiral network or Spiral Π-net that encodes shapes of one topology as vectors",
    input_shape=(5023, 3),
    toy={"sizes": (40, 10, 3), "lengths": (4, 4, 3), "encoder": (3, 4, 4), "decoder": (4, 4, 3), "latent": 2},
    task="mesh",
)
