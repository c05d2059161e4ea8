"""A mesh at several resolutions, with spirals at each and maps between them, as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pinets._storage import read_tensors, write_tensors
from pinets.operators.mesh import Mesh, MeshError

__all__ = ["Hierarchy", "Level"]


@dataclass(frozen=True, eq=False)
class Level:
    """One resolution.

    Args:
        mesh: Its vertices and faces.
        spirals: int64, (V, L): each vertex and L - 1 vertices around it; the number V stands for "no vertex".
    """

    mesh: Mesh
    spirals: Tensor


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Levels from fine to coarse, and the maps between neighbouring levels.

    Args:
        levels: The levels, the finest first.
        down: For each step to a coarser level, the vertices that are kept: int64, (coarse,).
        up: For each step to a finer level, three coarse vertices for every fine one, int64 (fine, 3), and their
            weights, floating point (fine, 3).

    Example:
        >>> hierarchy = Hierarchy.blank(sizes=(5023, 1256), lengths=(9, 9))
        >>> hierarchy
        Hierarchy(5023-1256 vertices, spirals of 9-9)
    """

    levels: tuple[Level, ...]
    down: tuple[Tensor, ...]
    up: tuple[tuple[Tensor, Tensor], ...]

    def __post_init__(self) -> None:
        if not self.levels or not len(self.down) == len(self.up) == len(self.levels) - 1:
            raise MeshError(
                f"{len(self.levels)} levels need {len(self.levels) - 1} maps down and up, got {len(self.down)} and "
                f"{len(self.up)}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of vertices at each level."""
        return tuple(len(level.mesh.vertices) for level in self.levels)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of the spirals at each level."""
        return tuple(level.spirals.shape[1] for level in self.levels)

    @classmethod
    def blank(cls, sizes: Sequence[int], lengths: Sequence[int]) -> Hierarchy:
        """A hierarchy of these sizes in which no vertex has neighbours, to build a network without a template."""
        levels = []
        for size, length in zip(sizes, lengths, strict=True):
            spirals = torch.full((size, length), size, device="cpu")
            spirals[:, 0] = torch.arange(size, device="cpu")
            points = torch.zeros(size, 3, device="cpu")
            levels.append(Level(Mesh(points, torch.empty(0, 3, dtype=torch.int64, device="cpu")), spirals))
        down = tuple(torch.arange(size, device="cpu") for size in sizes[1:])
        up = tuple(
            (torch.zeros(size, 3, dtype=torch.int64, device="cpu"), torch.full((size, 3), 1 / 3, device="cpu"))
            for size in sizes[:-1]
        )
        return cls(tuple(levels), down, up)

    def digest(self) -> str:
        """A checksum of the spirals and maps, which the weights of a network depend on."""
        checksum = hashlib.sha256()
        for name, tensor in sorted(self._tensors().items()):
            if not name.startswith("mesh."):
                checksum.update(f"{name} {tuple(tensor.shape)}".encode())
                checksum.update(tensor.numpy().tobytes())
        return checksum.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write all of it into one file."""
        write_tensors(path, self._tensors())

    @classmethod
    def load(cls, path: str | Path) -> Hierarchy:
        """Read what :meth:`save` wrote."""
        try:
            tensors, _ = read_tensors(path)
            count = sum(name.startswith("spirals.") for name in tensors)
            return cls(
                tuple(
                    Level(Mesh(tensors[f"mesh.vertices.{n}"], tensors[f"mesh.faces.{n}"]), tensors[f"spirals.{n}"])
                    for n in range(count)
                ),
                tuple(tensors[f"down.{n}"] for n in range(count - 1)),
                tuple((tensors[f"up.indices.{n}"], tensors[f"up.weights.{n}"]) for n in range(count - 1)),
            )
        except (ValueError, KeyError) as error:
            raise MeshError(f"{path} is not a hierarchy of meshes: {error}") from error

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {}
        for number, level in enumerate(self.levels):
            tensors[f"mesh.vertices.{number}"] = level.mesh.vertices
            tensors[f"mesh.faces.{number}"] = level.mesh.faces
            tensors[f"spirals.{number}"] = level.spirals
        for number, kept in enumerate(self.down):
            tensors[f"down.{number}"] = kept
        for number, (indices, weights) in enumerate(self.up):
            tensors[f"up.indices.{number}"] = indices
            tensors[f"up.weights.{number}"] = weights
        return {name: tensor.contiguous() for name, tensor in tensors.items()}

    def __repr__(self) -> str:
        sizes, lengths = ("-".join(map(str, numbers)) for numbers in (self.sizes, self.lengths))
        return f"Hierarchy({sizes} vertices, spirals of {lengths})"
