"""Triangle meshes, checked when they are made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Mesh", "MeshError"]


class MeshError(ValueError):
    """A mesh that cannot be used; the message names the vertex or face and the rule."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A triangle mesh. It may be open, disconnected or non-manifold, and have vertices in no face.

    Args:
        vertices: Floating point, (V, 3), finite.
        faces: int64, (F, 3), indices of vertices. A face with a repeated vertex has no area and is dropped.

    Example:
        >>> Mesh(torch.eye(3), torch.tensor([[0, 1, 2], [1, 1, 2]]))
        Mesh(3 vertices, 1 faces)
    """

    vertices: Tensor
    faces: Tensor

    def __post_init__(self) -> None:
        vertices, faces = self.vertices, self.faces
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not vertices.is_floating_point():
            raise MeshError(f"vertices must be floats of shape (V, 3), got {tuple(vertices.shape)} {vertices.dtype}")
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype != torch.int64:
            raise MeshError(f"faces must be int64 of shape (F, 3), got {tuple(faces.shape)} {faces.dtype}")
        if len(vertices) == 0:
            raise MeshError("a mesh needs at least one vertex, got none")
        broken = ~torch.isfinite(vertices).all(dim=1)
        if broken.any():
            first = int(broken.nonzero()[0])
            raise MeshError(f"vertex {first} is {vertices[first].tolist()}; {int(broken.sum())} are not finite")
        outside = ((faces < 0) | (faces >= len(vertices))).any(dim=1)
        if outside.any():
            first = int(outside.nonzero()[0])
            raise MeshError(
                f"face {first} is {faces[first].tolist()}, but vertices are numbered from 0 to {len(vertices) - 1}"
            )
        a, b, c = faces.unbind(1)
        object.__setattr__(self, "faces", faces[(a != b) & (b != c) & (c != a)])

    def digest(self) -> str:
        """A checksum of the vertices and faces."""
        checksum = hashlib.sha256(str(len(self.vertices)).encode())
        checksum.update(self.vertices.double().contiguous().numpy().tobytes())
        checksum.update(self.faces.contiguous().numpy().tobytes())
        return checksum.hexdigest()

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces)"
