"""Spirals: for every vertex a fixed order of the vertices around it, which is what a spiral convolution reads.

A spiral begins at the vertex itself, goes once around its neighbours, then around theirs, and so on outwards. Where a
turn begins is the neighbour nearest to a reference vertex along the mesh, so that spirals of neighbouring vertices
point the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pinets._extras import require
from pinets.operators.mesh import Mesh, MeshError

__all__ = [
    "fit_length",
    "geodesic_distances",
    "ordered_neighbours",
    "require_vertices",
    "spiral_length",
    "spiral_lists",
]


def ordered_neighbours(mesh: Mesh) -> list[list[int]]:
    """For each vertex its neighbours, counter-clockwise seen from outside.

    A closed fan of faces gives a cycle, whose first neighbour is the one with the lowest number. At a boundary the fan
    is open and begins at its first edge. Where several fans meet (a non-manifold vertex) they follow each other, that
    with the lowest first neighbour first. A vertex in no face has no neighbours.

    Example:
        >>> corner = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0]])
        >>> ordered_neighbours(Mesh(corner, torch.tensor([[0, 1, 2], [0, 2, 3]])))
        [[1, 2, 3], [2, 0], [3, 0, 1], [0, 2]]
    """
    edges: list[list[tuple[int, int]]] = [[] for _ in range(len(mesh.vertices))]  # opposite to each vertex
    for a, b, c in mesh.faces.tolist():
        edges[a].append((b, c))
        edges[b].append((c, a))
        edges[c].append((a, b))
    return [_chain(around) for around in edges]


def _chain(edges: list[tuple[int, int]]) -> list[int]:
    """Link directed edges end to start into fans, and return the vertices in order, each once."""
    following: dict[int, list[int]] = {}
    for start, end in sorted(edges, reverse=True):  # the lowest end is taken first, from the back
        following.setdefault(start, []).append(end)
    ends = {end for _, end in edges}
    order: dict[int, None] = {}
    # open fans can only be followed from their first edge, closed ones from any
    for first in [*sorted(set(following) - ends), *sorted(following)]:
        while following.get(first):  # again, where several fans begin at the same neighbour
            vertex = first
            while following.get(vertex):
                order.setdefault(vertex)
                vertex = following[vertex].pop()
                order.setdefault(vertex)
    return list(order)


def spiral_lists(mesh: Mesh, *, hops: int = 1, references: Sequence[int] = ()) -> list[list[int]]:
    """The spiral of every vertex, of its own length.

    Args:
        mesh: Any triangle mesh. A spiral never leaves its connected part; that of a vertex in no face is the vertex.
        hops: How many turns: 1 for the neighbours, 2 for theirs as well, ...
        references: Vertices towards which the spirals begin. A part of the mesh without one takes its lowest-numbered
            vertex.

    Example:
        >>> corner = Mesh(torch.rand(5, 3), torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]]))
        >>> spiral_lists(corner, references=[3])[0]
        [0, 3, 4, 1, 2]
    """
    if hops < 1:
        raise ValueError(f"hops must be at least 1, got {hops}")
    around = ordered_neighbours(mesh)
    distance = geodesic_distances(mesh, references).tolist()
    return [_spiral(vertex, around, distance, hops) for vertex in range(len(around))]


def _spiral(vertex: int, around: list[list[int]], distance: list[float], hops: int) -> list[int]:
    neighbours = around[vertex]
    if not neighbours:
        return [vertex]
    start = min(neighbours, key=lambda other: (distance[other], other))
    ring = _from(neighbours, start)
    spiral, seen = [vertex, *ring], {vertex, *ring}
    for _ in range(hops - 1):
        outer: list[int] = []
        before = ring[-1]
        for member in ring:
            # seen from the ring's member, what lies outside comes after the ring's previous member
            turn = _from(around[member], before) if before in around[member] else around[member]
            fresh = [other for other in turn if other not in seen]
            outer += fresh
            seen.update(fresh)
            before = member
        if not outer:
            break
        spiral += outer
        ring = outer
    return spiral


def _from(cycle: list[int], first: int) -> list[int]:
    position = cycle.index(first)
    return cycle[position:] + cycle[:position]


def spiral_length(spirals: Sequence[Sequence[int]]) -> int:
    r"""The published rule for the length that all spirals are brought to: :math:`\lfloor \mu + 2\sigma \rfloor`.

    >>> spiral_length([[0] * 7, [0] * 7, [0] * 10])
    10
    """
    lengths = torch.tensor([float(len(spiral)) for spiral in spirals], dtype=torch.float64)
    return int(lengths.mean() + 2 * lengths.std(correction=0))


def fit_length(spirals: Sequence[Sequence[int]], length: int, *, dilation: int = 1) -> Tensor:
    """Cut or pad all spirals to one length, and of that take every ``dilation``-th vertex.

    The number of vertices, one more than any vertex has, stands where a spiral is too short: a row of zeros.

    >>> fit_length([[0, 1, 2], [1, 0], [2, 0]], 3)
    tensor([[0, 1, 2],
            [1, 0, 3],
            [2, 0, 3]])
    """
    if length < 1 or dilation < 1:
        raise ValueError(f"length and dilation must be at least 1, got {length} and {dilation}")
    padding = len(spirals)
    padded = [[*spiral[:length], *[padding] * (length - len(spiral))] for spiral in spirals]
    return torch.tensor(padded, dtype=torch.int64)[:, ::dilation].contiguous()


def geodesic_distances(mesh: Mesh, references: Sequence[int] = ()) -> Tensor:
    """The distance of each vertex to the nearest reference along the edges; every connected part has a reference."""
    require_vertices(mesh, references)
    graph = _edge_lengths(mesh)
    csgraph = require("scipy.sparse.csgraph", extra="mesh")
    parts = torch.from_numpy(csgraph.connected_components(graph, directed=False)[1])
    known = {int(parts[reference]) for reference in references}
    lowest = {part: vertex for vertex, part in reversed(list(enumerate(parts.tolist())))}
    sources = [*references, *(vertex for part, vertex in sorted(lowest.items()) if part not in known)]
    return torch.from_numpy(csgraph.dijkstra(graph, directed=False, indices=sources, min_only=True))


def require_vertices(mesh: Mesh, references: Sequence[int]) -> None:
    """Refuse the number of a vertex that does not exist."""
    count = len(mesh.vertices)
    for reference in references:
        if not 0 <= reference < count:
            raise MeshError(f"there is no vertex {reference}: vertices are numbered from 0 to {count - 1}")


def _edge_lengths(mesh: Mesh) -> object:
    a, b, c = mesh.faces.unbind(1)
    start, end = torch.cat([a, b, c]), torch.cat([b, c, a])
    # each edge once: csr_array would add up those of two faces
    start, end = torch.stack([torch.minimum(start, end), torch.maximum(start, end)]).unique(dim=1).unbind(0)
    points = mesh.vertices.double()
    # neighbours may lie at one place, and a length of zero would mean no edge
    lengths = (points[start] - points[end]).norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    sparse = require("scipy.sparse", extra="mesh")
    size = len(points)
    return sparse.csr_array((lengths.numpy(), (start.numpy(), end.numpy())), shape=(size, size))
