r"""Spiral networks and Spiral Π-nets: autoencoders of shapes of one topology.

A layer is plain (a spiral convolution), full (NCP or NCP-Skip of spiral convolutions) or simple (powers of one spiral
convolution). Features come last: (..., V, features).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from pinets.layers import PowerSum
from pinets.layers.build import check_at_least_one
from pinets.layers.initialization import draw_weight
from pinets.models.mesh_autoencoder import MeshAutoencoder
from pinets.models.parts import Bias, LastAxisBatchNorm, Silent, choose, reset_layers
from pinets.models.registry import register
from pinets.operators import SpiralConv
from pinets.operators.hierarchy import Hierarchy
from pinets.polynomial import Polynomial, Source, Step

__all__ = [
    "LAYERS",
    "NORMS",
    "LayerName",
    "NormName",
    "SpiralActivation",
    "SpiralPolynomial",
    "VertexBatchNorm",
    "VertexInstanceNorm",
    "full_layer",
    "plain_layer",
    "simple_layer",
    "spiral_autoencoder",
]

LayerName = Literal["plain", "ncp", "ncp_skip", "simple"]
NormName = Literal["instance", "batch", "vertex", "none"]
SpiralActivation = Literal["none", "elu"]
MakeLayer = Callable[[int, int, Tensor], nn.Module]  # (in_features, out_features, spirals)
MakeNorm = Callable[[int, int], nn.Module]  # (vertices, features)


class VertexInstanceNorm(Silent, nn.InstanceNorm1d):
    """Instance norm over the vertices; its scale starts at zero, so a fresh network has no products.

    Example:
        >>> import torch
        >>> norm = VertexInstanceNorm(4)
        >>> _ = nn.init.ones_(norm.weight)
        >>> y = norm(5 + 3 * torch.randn(2, 100, 4))
        >>> torch.allclose(y.mean(1), torch.zeros(2, 4), atol=1e-5)
        True
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, affine=True)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.mT).mT


class FeatureBatchNorm(Silent, LastAxisBatchNorm):
    """Batch norm of each feature; its scale starts at zero."""


class VertexBatchNorm(Silent, nn.BatchNorm1d):
    """Batch norm of each feature of each vertex; its scale starts at zero. Affine at inference.

    Example:
        >>> import torch
        >>> VertexBatchNorm(10, 4)(torch.randn(2, 10, 4)).shape
        torch.Size([2, 10, 4])
    """

    def __init__(self, vertices: int, features: int) -> None:
        super().__init__(vertices * features)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(-2)).view_as(input)


# The paper says "instance", published code does "vertex"; with all but "instance" the network is a polynomial in eval.
NORMS: dict[str, MakeNorm] = {
    "instance": lambda vertices, features: VertexInstanceNorm(features),
    "batch": lambda vertices, features: FeatureBatchNorm(features),
    "vertex": VertexBatchNorm,
    "none": lambda vertices, features: nn.Identity(),
}


class SpiralPolynomial(Polynomial):
    r"""A polynomial of order N whose operators are spiral convolutions.

    .. math:: x_n = \mathrm{norm}_n\big((A_n x_1) * (S_n x_{n-1})\big) + A_n x_1 \;[+ V_n x_{n-1}], \qquad
        y = x_N + \beta

    for n = 2, ..., N, with :math:`x_1` the input. The term in brackets is NCP-Skip's. :math:`V_n` is the identity;
    where the layer changes the number of features, :math:`V_2` is a matrix (published code leaves this term out).

    Args:
        in_features: Features of a vertex.
        out_features: Features of a vertex afterwards.
        spirals: int64, (V, L), as in :class:`~pinets.operators.SpiralConv`.
        order: The order N, at least 2.
        norm: Makes the normalisation of a product from the numbers of vertices and features.
        skip: Whether to carry the state (NCP-Skip).

    Example:
        >>> import torch
        >>> spirals = torch.stack([torch.arange(10), torch.arange(10).roll(1)], dim=1)
        >>> layer = SpiralPolynomial(3, 5, spirals, order=3, norm=NORMS["instance"], skip=True)
        >>> layer(torch.randn(2, 10, 3)).shape
        torch.Size([2, 10, 5])
    """

    def __init__(
        self, in_features: int, out_features: int, spirals: Tensor, *, order: int, norm: MakeNorm, skip: bool
    ) -> None:
        if order < 2:
            raise ValueError(f"order must be at least 2, got {order}; order 1 is a SpiralConv")

        def step(width: int) -> Step:
            carry: dict[Source, nn.Module] = {"gate": nn.Identity()}
            if skip:  # V_n
                same = width == out_features
                carry["state"] = nn.Identity() if same else nn.Linear(width, out_features, bias=False)
            return Step(
                gate=SpiralConv(in_features, out_features, spirals, bias=False),  # A_n
                body=SpiralConv(width, out_features, spirals, bias=False),  # S_n
                norm=norm(len(spirals), out_features),
                carry=carry,
            )

        widths = [in_features, *[out_features] * (order - 2)]
        super().__init__(nn.Identity(), map(step, widths), head=Bias(out_features))
        self.skip = skip
        self.register_load_state_dict_pre_hook(_split_stacked_views)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew, with about the variance of the input in the output.

        The products start at zero. Without a skip only A_N x_1 reaches the output then. With a skip the output is the
        sum of A_2 x_1, ..., A_N x_1 and V_2 x_1, which share the variance. (An identity as V_2 keeps its own, and the
        variance grows to at most twice the input's.)
        """
        reset_layers(self)
        if self.skip:
            for step in self.steps:
                draw_weight(step.gate, 1 / self.order)
            draw_weight(self.steps[0].carry["state"], 1 / self.order)


def _split_stacked_views(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Accept older state dicts, which stack S_2, A_2, ..., A_N in ``views.weight``."""
    stacked = state.pop(f"{prefix}views.weight", None)
    if stacked is None:
        return
    body, *gates = stacked.chunk(module.order)
    state[f"{prefix}steps.0.body.weight"] = body
    for number, gate in enumerate(gates):
        state[f"{prefix}steps.{number}.gate.weight"] = gate
    renamed = {"bias.bias": "head.bias", "carry.weight": "steps.0.carry.state.weight"}
    for old, new in renamed.items():
        if prefix + old in state:
            state[prefix + new] = state.pop(prefix + old)


def plain_layer(in_features: int, out_features: int, spirals: Tensor) -> nn.Module:
    """A spiral convolution: order 1."""
    return SpiralConv(in_features, out_features, spirals)


def full_layer(order: int, norm: MakeNorm, *, skip: bool) -> MakeLayer:
    """Make :class:`SpiralPolynomial` layers of the given order; plain layers for order 1."""
    check_at_least_one("order", order)
    if order == 1:
        return plain_layer
    return lambda in_features, out_features, spirals: SpiralPolynomial(
        in_features, out_features, spirals, order=order, norm=norm, skip=skip
    )


def simple_layer(order: int, norm: MakeNorm) -> MakeLayer:
    r"""Make layers :math:`S x + \sum_n \mathrm{norm}_n((S x)^n) + \beta`: powers of one spiral convolution."""
    check_at_least_one("order", order)
    return lambda in_features, out_features, spirals: nn.Sequential(
        SpiralConv(in_features, out_features, spirals, bias=False),
        PowerSum(order, norm=lambda: norm(len(spirals), out_features)),
        Bias(out_features),
    )


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
) -> MeshAutoencoder:
    """A spiral network or Spiral Π-net that encodes shapes of one topology as vectors. The defaults are for COMA.

    Args:
        hierarchy: From :func:`pinets.tasks.meshes.geometry.build_hierarchy`. Without one, the network has the weights
            for the given sizes and lengths, but no vertex has neighbours.
        layer: ``"plain"``, ``"ncp"``, ``"ncp_skip"`` or ``"simple"``.
        order: Order of each layer; 1 for plain layers.
        activation: ``"elu"`` after each layer but the last, or ``"none"``.
        norm: Normalisation of the products: ``"instance"`` as in the paper, ``"vertex"`` as in published code (batch
            norm of each feature of each vertex), ``"batch"`` (of each feature), or ``"none"``. The last three are
            affine at inference.
        encoder: Widths of the encoder.
        decoder: Widths of the decoder.
        latent: Size of the vector.
        sizes: Number of vertices at each level if there is no hierarchy.
        lengths: Length of the spirals at each level if there is no hierarchy.

    Example:
        >>> model = spiral_autoencoder()
        >>> sum(parameter.numel() for parameter in model.parameters())
        48547
    """
    hierarchy = Hierarchy.blank(sizes, lengths) if hierarchy is None else hierarchy
    if layer == "plain" and order != 1:
        raise ValueError(f"a plain layer has order 1, got {order}; the others are ncp, ncp_skip and simple")
    make = choose(layer, LAYERS, "layer")(order, choose(norm, NORMS, "norm"))
    return MeshAutoencoder(
        hierarchy,
        lambda in_features, out_features, level: make(in_features, out_features, hierarchy.levels[level].spirals),
        encoder=encoder,
        decoder=decoder,
        latent=latent,
        activation=choose(activation, _ACTIVATIONS, "activation"),
    )


register(
    "spiral_autoencoder",
    spiral_autoencoder,
    summary="Spiral network or Spiral Π-net that encodes shapes of one topology as vectors",
    input_shape=(5023, 3),
    toy={"sizes": (40, 10, 3), "lengths": (4, 4, 3), "encoder": (3, 4, 4), "decoder": (4, 4, 3), "latent": 2},
    task="mesh",
)
