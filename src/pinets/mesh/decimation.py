"""Fewer vertices by quadric edge collapse, all of them vertices of the mesh one began with."""

from __future__ import annotations

from bisect import bisect_left

import torch
from torch import Tensor

from pinets._extras import require
from pinets.mesh.mesh import Mesh, MeshError

__all__ = ["collapse"]


def collapse(mesh: Mesh, count: int) -> tuple[Tensor, Mesh]:
    """Reduce a mesh to ``count`` of its own vertices.

    Edges are collapsed in the order of their quadric error by ``fast-simplification``, which moves the vertices that
    remain; in place of each stands the nearest of the vertices that were merged into it. Vertices in no face go first.

    Returns:
        The numbers of the vertices that are kept, ascending, and the mesh that they make.

    Example:
        >>> import trimesh
        >>> ball = trimesh.creation.icosphere(subdivisions=2)
        >>> kept, coarse = collapse(Mesh(torch.tensor(ball.vertices), torch.tensor(ball.faces)), 41)
        >>> len(kept), coarse
        (41, Mesh(41 vertices, 78 faces))
    """
    total = len(mesh.vertices)
    if not 1 <= count <= total:
        raise ValueError(f"count must lie between 1 and the number of vertices, {total}; got {count}")
    used = torch.zeros(total, dtype=torch.bool)
    used[mesh.faces.flatten()] = True
    if count <= int(used.sum()):
        kept = used.nonzero().flatten()
    else:  # some of the vertices in no face remain, those with the lowest numbers
        loose = (~used).nonzero().flatten()[: count - int(used.sum())]
        kept = torch.cat([used.nonzero().flatten(), loose]).sort().values
    smaller = _restrict(mesh, kept)
    if count == len(kept):
        return kept, smaller
    inner, faces = _collapse_edges(smaller, count)
    return kept[inner], Mesh(smaller.vertices[inner], faces)


def _collapse_edges(mesh: Mesh, count: int) -> tuple[Tensor, Tensor]:
    simplification = require("fast_simplification", extra="mesh")
    points, faces = _unit_size(mesh.vertices.double()), mesh.faces.int().numpy()
    for aggression in (3.0, 5.0, 7.0):  # the lower, the nearer to the order of the errors, and the sooner it stops
        *_, collapses = simplification.simplify(
            points.numpy(), faces, target_count=0, agg=aggression, return_collapses=True
        )

        def replay(edges: int) -> tuple[Tensor, Tensor, Tensor]:
            """What is left after so many collapses: vertices, faces, and the new number of every old vertex."""
            found = simplification.replay_simplification(points.numpy(), faces, collapses[:edges])  # noqa: B023
            moved, coarse, merged = map(torch.as_tensor, found)
            return moved.double(), coarse.long(), merged.long()

        if len(replay(len(collapses))[0]) <= count:
            break
    else:
        raise MeshError(
            f"the mesh cannot be reduced to {count} vertices: of its {len(points)}, only {len(collapses)} can be "
            f"removed by collapsing edges; ask for fewer levels"
        )
    # a collapse removes one vertex, or more where it makes a small part of the mesh vanish
    edges = bisect_left(range(len(collapses) + 1), -count, key=lambda number: -len(replay(number)[0]))
    moved, coarse, merged = replay(edges)
    kept = _nearest_member(points, moved, merged)
    spare = torch.ones(len(points), dtype=torch.bool)
    spare[kept] = False
    kept = torch.cat([kept, spare.nonzero().flatten()[: count - len(kept)]])  # of what vanished, in no face
    ascending = kept.argsort()
    place = torch.empty_like(ascending)
    place[ascending] = torch.arange(count)
    return kept[ascending], _distinct(place[coarse])


def _unit_size(vertices: Tensor) -> Tensor:
    """The same shape about the origin: the errors at which edges may collapse are absolute numbers."""
    centred = vertices - vertices.mean(dim=0)
    return centred / centred.abs().max().clamp_min(torch.finfo(vertices.dtype).tiny)


def _nearest_member(vertices: Tensor, moved: Tensor, merged: Tensor) -> Tensor:
    """For every cluster the number of that of its members which is nearest to where the cluster was moved."""
    members = (merged >= 0).nonzero().flatten()  # the others belong to a part of the mesh that has vanished
    distance = (vertices[members] - moved[merged[members]]).norm(dim=1)
    best: dict[int, tuple[float, int]] = {}
    for vertex, cluster, far in zip(members.tolist(), merged[members].tolist(), distance.tolist(), strict=True):
        best[cluster] = min(best.get(cluster, (far, vertex)), (far, vertex))
    return torch.tensor([best[cluster][1] for cluster in range(len(moved))], dtype=torch.int64)


def _distinct(faces: Tensor) -> Tensor:
    """Without the second of two faces on the same vertices, whatever their order."""
    _, which = torch.unique(faces.sort(dim=1).values, dim=0, return_inverse=True)
    first: dict[int, int] = {}
    for face, group in enumerate(which.tolist()):
        first.setdefault(group, face)
    return faces[torch.tensor(sorted(first.values()), dtype=torch.int64)]


def _restrict(mesh: Mesh, kept: Tensor) -> Mesh:
    """The mesh of some vertices, among them all that are in faces."""
    place = torch.full((len(mesh.vertices),), -1, dtype=torch.int64)
    place[kept] = torch.arange(len(kept))
    return Mesh(mesh.vertices[kept], place[mesh.faces])
