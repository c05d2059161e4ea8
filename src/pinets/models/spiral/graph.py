"""The graph networks that the paper compares with, on the same hierarchy: layers of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets.mesh.hierarchy import Hierarchy
from pinets.models.choices import choose
from pinets.models.spiral.autoencoder import MeshAutoencoder

__all__ = ["GraphLayer", "OperatorName", "graph_autoencoder", "mesh_edges"]

OperatorName = Literal["chebnet", "feastnet", "gat", "monet"]


class GraphLayer(nn.Module):
    """A layer of PyTorch Geometric on the edges of a mesh, the same for all samples of a batch.

    Args:
        layer: Called with nodes, (N, in), and edges, (2, E); with ``attributes`` also with those.
        edges: int64, (2, E).
        vertices: How many the mesh has.
        attributes: Of the edges, (E, d).
    """

    edges: Tensor
    attributes: Tensor | None

    def __init__(self, layer: nn.Module, edges: Tensor, vertices: int, attributes: Tensor | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.vertices = vertices
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("attributes", attributes, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        # one graph of as many parts as there are samples
        shift = self.vertices * torch.arange(batch, device=x.device).repeat_interleave(self.edges.shape[1])
        edges = self.edges.repeat(1, batch) + shift
        more = () if self.attributes is None else (self.attributes.repeat(batch, 1),)
        return self.layer(x.flatten(0, 1), edges, *more).unflatten(0, (batch, self.vertices))


def mesh_edges(faces: Tensor, vertices: int) -> Tensor:
    """All edges of a mesh in both directions, each once, and one from the first vertex to itself if there are none.

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
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> MeshAutoencoder:
    """A graph network that encodes shapes as vectors, in the same architecture as the spiral networks, with ELU.

    Args:
        hierarchy: Of the template.
        operator: ``"chebnet"`` (the one of COMA), ``"feastnet"``, ``"gat"`` or ``"monet"``.
        encoder: Widths of the encoder.
        decoder: Widths of the decoder.
        latent: Size of the vector.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """
    make = choose(operator, _OPERATORS, "operator")

    def on_level(in_features: int, out_features: int, level: int, **where: object) -> nn.Module:
        mesh = hierarchy.levels[level].mesh
        vertices = len(mesh.vertices)
        edges = mesh_edges(mesh.faces, vertices)
        layer, attributes = make(in_features, out_features, edges, mesh.vertices)
        return GraphLayer(layer, edges, vertices, attributes).to(device=device, dtype=dtype)

    return MeshAutoencoder(
        hierarchy,
        on_level,
        encoder=encoder,
        decoder=decoder,
        latent=latent,
        activation=nn.ELU,
        device=device,
        dtype=dtype,
    )


Made = tuple[nn.Module, Tensor | None]
_HOPS = 6  # terms of the Chebyshev polynomial, as in COMA


def _geometric() -> Any:
    return require("torch_geometric.nn", extra="mesh")


def _chebnet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> Made:
    layer = _geometric().ChebConv(in_features, out_features, K=_HOPS)
    with torch.no_grad():
        for term in layer.lins:  # each starts at full size: their sum would grow from layer to layer
            term.weight.mul_(_HOPS**-0.5)
    return layer, None


def _feastnet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> Made:
    return _geometric().FeaStConv(in_features, out_features, heads=9), None  # as many matrices as a spiral has vertices


def _gat(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> Made:
    return _geometric().GATConv(in_features, out_features, heads=8, concat=False), None  # as in GAT, averaged


def _monet(in_features: int, out_features: int, edges: Tensor, points: Tensor) -> Made:
    # where the other end lies, seen from a vertex of the template, in units of the longest edge; the degrees that MoNet
    # takes for graphs tell little of a mesh, where nearly all are six
    offsets = (points[edges[0]] - points[edges[1]]).to(torch.get_default_dtype())
    longest = torch.linalg.vector_norm(offsets, dim=1).max().clamp_min(torch.finfo(offsets.dtype).tiny)
    return _geometric().GMMConv(in_features, out_features, dim=3, kernel_size=9), offsets / longest


_OPERATORS: dict[str, Callable[[int, int, Tensor, Tensor], Made]] = {
    "chebnet": _chebnet,
    "feastnet": _feastnet,
    "gat": _gat,
    "monet": _monet,
}
