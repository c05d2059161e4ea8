"""Where the vertices of a fine mesh lie on a coarse one: three coarse vertices, and how much of each."""

from __future__ import annotations

import torch
from torch import Tensor

from pinets._extras import require
from pinets.mesh.mesh import Mesh

__all__ = ["barycentric"]


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
    with require("numpy", extra="mesh").errstate(all="ignore"):  # faces without area: not finite, and replaced below
        corners = trimesh.triangles.points_to_barycentric(surface.triangles[face], closest)
    shares = torch.as_tensor(corners).clamp_min(0)  # leaves NaN as it is
    shares = shares / shares.sum(dim=1, keepdim=True)
    # a vertex on the mesh is that vertex, without rounding; so is one beside a face that has no area
    on_face = (torch.as_tensor(away) < distance) & shares.isfinite().all(dim=1)
    indices[on_face] = mesh.faces[torch.as_tensor(face).long()][on_face]
    weights[on_face] = shares[on_face]
    return indices, weights
