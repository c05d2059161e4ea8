"""The neighbours of every vertex, in the order in which the faces lie around it."""

from __future__ import annotations

from pinets.mesh.mesh import Mesh

__all__ = ["ordered_neighbours"]


def ordered_neighbours(mesh: Mesh) -> list[list[int]]:
    """For each vertex its neighbours, counter-clockwise seen from outside.

    A closed fan of faces gives a cycle, whose first neighbour is the one with the lowest number. At a boundary the fan
    is open and begins at its first edge. Where several fans meet (a non-manifold vertex) they follow each other, that
    with the lowest first neighbour first. A vertex in no face has no neighbours.

    Example:
        >>> import torch
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
