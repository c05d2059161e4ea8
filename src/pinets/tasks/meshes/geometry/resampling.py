"""From a fine mesh to a coarse one and back: quadric edge collapse, and projection onto the coarse faces."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import torch
from torch import Tensor

from pinets._extras import require
from pinets.operators.mesh import Mesh, MeshError

__all__ = ["barycentric", "collapse"]


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
    place = torch.full((total,), -1, dtype=torch.int64)
    place[kept] = torch.arange(len(kept))
    smaller = Mesh(mesh.vertices[kept], place[mesh.faces])
    if count == len(kept):
        return kept, smaller
    inner, faces = _collapse_edges(smaller, count)
    return kept[inner], Mesh(smaller.vertices[inner], faces)


def _collapse_edges(mesh: Mesh, count: int) -> tuple[Tensor, Tensor]:
    simplification = require("fast_simplification", extra="mesh")
    vertices = mesh.vertices.double()
    centred = vertices - vertices.mean(dim=0)
    # of size one: the errors at which edges may collapse are absolute numbers
    points = centred / centred.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    faces = mesh.faces.int().numpy()
    for aggression in (3.0, 5.0, 7.0):  # lower ones follow the order of the errors more closely, but may stop too early
        *_, collapses = simplification.simplify(
            points.numpy(), faces, target_count=0, agg=aggression, return_collapses=True
        )

        def replay(edges: int) -> tuple[Tensor, Tensor, Tensor]:
            """The vertices, the faces and the new number of every old vertex after this many collapses."""
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
    kept = torch.cat([kept, spare.nonzero().flatten()[: count - len(kept)]])  # from parts that vanished
    ascending = kept.argsort()
    place = torch.empty_like(ascending)
    place[ascending] = torch.arange(count)
    final = place[coarse]
    # of faces on the same vertices, in any order, the first
    _, first = np.unique(final.sort(dim=1).values.numpy(), axis=0, return_index=True)
    return kept[ascending], final[torch.from_numpy(np.sort(first))]


def _nearest_member(vertices: Tensor, moved: Tensor, merged: Tensor) -> Tensor:
    """For every cluster the number of that of its members which is nearest to where the cluster was moved."""
    members = (merged >= 0).nonzero().flatten()  # the others belong to parts that vanished
    distance = (vertices[members] - moved[merged[members]]).norm(dim=1)
    best: dict[int, tuple[float, int]] = {}
    for vertex, cluster, far in zip(members.tolist(), merged[members].tolist(), distance.tolist(), strict=True):
        best[cluster] = min(best.get(cluster, (far, vertex)), (far, vertex))
    return torch.tensor([best[cluster][1] for cluster in range(len(moved))], dtype=torch.int64)


def barycentric(points: Tensor, mesh: Mesh) -> tuple[Tensor, Tensor]:
    """Project points onto a mesh.

    Args:
        points: (P, 3).
        mesh: What they are projected onto: the nearest point of its faces, or where it has none, its nearest vertex.

    Returns:
        For every point three vertices, int64 (P, 3), and their weights, float64 (P, 3), which are not negative and
        sum to one. A point that is a vertex of the mesh has all weight on it.

    Example:
        >>> triangle = Mesh(torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))
        >>> barycentric(torch.tensor([[0.25, 0.5, 7.0]]), triangle)[1]
        tensor([[0.2500, 0.2500, 0.5000]], dtype=torch.float64)
    """
    spatial = require("scipy.spatial", extra="mesh")
    points, vertices = points.double(), mesh.vertices.double()
    distance, nearest = spatial.cKDTree(vertices.numpy()).query(points.numpy())
    distance, nearest = torch.as_tensor(distance), torch.as_tensor(nearest).long()
    indices = nearest[:, None].repeat(1, 3)
    weights = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).repeat(len(points), 1)
    if len(mesh.faces) == 0:
        return indices, weights
    trimesh = require("trimesh", extra="mesh")
    require("rtree", extra="mesh")  # what trimesh finds nearby triangles with
    surface = trimesh.Trimesh(vertices.numpy(), mesh.faces.numpy(), process=False)
    closest, away, face = trimesh.proximity.closest_point(surface, points.numpy())
    with np.errstate(all="ignore"):  # faces without area: not finite, and replaced below
        corners = trimesh.triangles.points_to_barycentric(surface.triangles[face], closest)
    shares = torch.as_tensor(corners).clamp_min(0)  # leaves NaN as it is
    shares = shares / shares.sum(dim=1, keepdim=True)
    # a vertex on the mesh is that vertex, without rounding; so is one beside a face that has no area
    on_face = (torch.as_tensor(away) < distance) & shares.isfinite().all(dim=1)
    indices[on_face] = mesh.faces[torch.as_tensor(face).long()][on_face]
    weights[on_face] = shares[on_face]
    return indices, weights
