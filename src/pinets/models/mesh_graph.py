"""The graph networks that the paper compares with: layers of PyTorch Geometric on the same hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets.models.mesh_autoencoder import MeshAutoencoder
from pinets.models.parts import choose
from pinets.operators.hierarchy import Hierarchy

__all__ = ["GraphLayer", "OperatorName", "graph_autoencoder", "mesh_edges"]

OperatorName = Literal["chebnet", "feastnet", "gat", "monet"]


class GraphLayer(nn.Module):
    """A layer of PyTorch Geometric on the edges of a mesh, applied to a batch of shapes.

    Args:
        layer: Called with nodes, (N, in), and edges, (2, E); with ``attributes`` also with those.
        edges: int64, (2, E).
        vertices: Number of vertices of the mesh.
        attributes: Attributes of the edges, (E, d).
        gain: Factor on the initial weights of the layer's linear maps, ``layer.lins``.
    """

    edges: Tensor
    attributes: Tensor | None

    def __init__(
        self, layer: nn.Module, edges: Tensor, vertices: int, attributes: Tensor | None = None, *, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.layer = layer
        self.vertices = vertices
        self.gain = gain
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("attributes", attributes, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew."""
        self.layer.reset_parameters()  # type: ignore[operator]
        if self.gain != 1:
            with torch.no_grad():
                for linear in self.layer.lins:  # type: ignore[union-attr]
                    linear.weight.mul_(self.gain)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        # one graph with a connected component for each sample
        shift = self.vertices * torch.arange(batch, device=x.device).repeat_interleave(self.edges.shape[1])
        edges = self.edges.repeat(1, batch) + shift
        more = () if self.attributes is None else (self.attributes.repeat(batch, 1),)
        return self.layer(x.flatten(0, 1), edges, *more).unflatten(0, (batch, self.vertices))


def mesh_edges(faces: Tensor, vertices: int) -> Tensor:
    """Each edge of a mesh once in both directions; a loop at vertex 0 if there are no faces.

    >>> mesh_edges(torch.tensor([[0, 1, 2]]), 3)
    tensor([[0, 0, 1, 1, 2, 2],
            [1, 2, 0, 2, 0, 1]])
    """
    a, b, c = faces.unbind(1)
    pairs = torch.stack([torch.cat([a, b, c, b, c, a]), torch.cat([b, c, a, a, b, c])])
    return torch.unique(pairs, dim=1) if len(faces) else torch.zeros(2, 1, dtype=torch.int64, device=faces.device)


def graph_autoencoder(
    hierarchy: Hierarchy,
    *,
    operator: OperatorName,
    encoder: Sequence[int] = (3, 16, 16, 16, 32),
    decoder: Sequence[int] = (32, 32, 16, 16, 3),
    latent: int = 16,
) -> MeshAutoencoder:
    """A graph network with ELU that encodes shapes as vectors, in the architecture of the spiral networks.

    Args:
        hierarchy: Levels of the template and the maps between them.
        operator: ``"chebnet"`` (as in COMA), ``"feastnet"``, ``"gat"`` or ``"monet"``.
        encoder: Widths of the encoder.
        decoder: Widths of the decoder.
        latent: Size of the vector.
    """
    make = choose(operator, _LAYERS, "operator")

    def on_level(in_features: int, out_features: int, level: int) -> nn.Module:
        mesh = hierarchy.levels[level].mesh
        edges = mesh_edges(mesh.faces, len(mesh.vertices))
        return make(in_features, out_features, edges, mesh.vertices)

    return MeshAutoencoder(hierarchy, on_level, encoder=encoder, decoder=decoder, latent=latent, activation=nn.ELU)


_HOPS = 6  # terms of the Chebyshev polynomial, as in COMA


def _geometric() -> Any:
    return require("torch_geometric.nn", extra="mesh")


def _chebnet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> GraphLayer:
    layer = _geometric().ChebConv(in_features, out_features, K=_HOPS)
    # PyTorch Geometric starts every term at full size; their sum would grow from layer to layer
    return GraphLayer(layer, edges, len(points), gain=_HOPS**-0.5)


def _feastnet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> GraphLayer:
    layer = _geometric().FeaStConv(in_features, out_features, heads=9)  # as many matrices as a spiral has vertices
    return GraphLayer(layer, edges, len(points))


def _gat(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> GraphLayer:
    layer = _geometric().GATConv(in_features, out_features, heads=8, concat=False)  # as in GAT, averaged
    return GraphLayer(layer, edges, len(points))


def _monet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> GraphLayer:
    # Pseudo-coordinates: offsets on the template in units of the longest edge. MoNet's choice for graphs, the degrees,
    # says little on a mesh, where nearly every degree is six.
    offsets = (points[edges[0]] - points[edges[1]]).to(torch.get_default_dtype())
    longest = torch.linalg.vector_norm(offsets, dim=1).max().clamp_min(torch.finfo(offsets.dtype).tiny)
    layer = _geometric().GMMConv(in_features, out_features, dim=3, kernel_size=9)
    return GraphLayer(layer, edges, len(points), offsets / longest)


_LAYERS: dict[str, Callable[[int, int, Tensor, Tensor], GraphLayer]] = {
    "chebnet": _chebnet,
    "feastnet": _feastnet,
    "gat": _gat,
    "monet": _monet,
}
