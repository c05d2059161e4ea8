"""Build the hierarchy of a template: its levels, their spirals, and the maps between them; cached on disk."""

from __future__ import annotations

import hashlib
import math
from dataclasses import astuple, dataclass
from pathlib import Path

from pinets._files import user_cache
from pinets.operators.hierarchy import Hierarchy, Level
from pinets.operators.mesh import Mesh, MeshError
from pinets.tasks.meshes.geometry.resampling import barycentric, collapse
from pinets.tasks.meshes.geometry.spirals import fit_length, require_vertices, spiral_length, spiral_lists

__all__ = ["HierarchyPlan", "LevelInfo", "build_hierarchy", "cached_hierarchy", "describe_levels", "undilated_lengths"]

_VERSION = 1  # raise it when the same values give other hierarchies


@dataclass(frozen=True)
class HierarchyPlan:
    """The settings of a hierarchy.

    Args:
        factors: How many times fewer vertices each further level has.
        hops: The turns of the spirals at each level.
        dilation: The dilation of the spirals at each level.
        lengths: How long the spirals are at each level, before dilation; by the published rule if left out.
        references: The vertices of the template towards which spirals begin.
    """

    factors: tuple[int, ...] = (4, 4, 4, 4)
    hops: tuple[int, ...] = (1, 1, 1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1, 1, 1)
    lengths: tuple[int, ...] | None = None
    references: tuple[int, ...] = ()

    def check(self) -> None:
        """Refuse values that do not fit each other; not on construction, since they may be set one by one."""
        levels = len(self.factors) + 1
        for name in ("hops", "dilation", "lengths"):
            values = getattr(self, name)
            if values is not None and (len(values) != levels or min(values) < 1):
                raise ValueError(f"{name} must give a number from 1 on for each of {levels} levels, got {values}")
        if any(factor < 2 for factor in self.factors):
            raise ValueError(f"factors must be at least 2, got {self.factors}")

    def sizes(self, vertices: int) -> tuple[int, ...]:
        """The number of vertices at each level.

        >>> HierarchyPlan().sizes(5023)
        (5023, 1256, 314, 79, 20)
        """
        sizes = [vertices]
        for factor in self.factors:
            sizes.append(math.ceil(sizes[-1] / factor))
        return tuple(sizes)

    def dilated_lengths(self) -> tuple[int, ...] | None:
        """The length of the spirals at each level after dilation; None where the plan has no lengths."""
        if self.lengths is None:
            return None
        return tuple(math.ceil(length / step) for length, step in zip(self.lengths, self.dilation, strict=True))


def build_hierarchy(template: Mesh, plan: HierarchyPlan | None = None) -> Hierarchy:
    """Build all levels of a template.

    Example:
        >>> import torch, trimesh
        >>> ball = trimesh.creation.icosphere(subdivisions=3)
        >>> template = Mesh(torch.tensor(ball.vertices), torch.tensor(ball.faces))
        >>> plan = HierarchyPlan(factors=(4, 4), hops=(1, 1, 1), dilation=(1, 1, 1), lengths=(8, 8, 8))
        >>> build_hierarchy(template, plan)
        Hierarchy(642-161-41 vertices, spirals of 8-8-8)
    """
    plan = HierarchyPlan() if plan is None else plan
    plan.check()
    require_vertices(template, plan.references)
    meshes, down, up = [template], [], []
    for count in plan.sizes(len(template.vertices))[1:]:
        fine = meshes[-1]
        if len(fine.faces) == 0:
            raise MeshError(f"the mesh has no face left at {len(fine.vertices)} vertices; ask for fewer levels")
        kept, coarse = collapse(fine, count)
        indices, weights = barycentric(fine.vertices, coarse)
        meshes.append(coarse)
        down.append(kept)
        up.append((indices, weights.float()))
    levels = []
    for number, mesh in enumerate(meshes):
        points = template.vertices[list(plan.references)]
        references = [int((mesh.vertices - point).norm(dim=1).argmin()) for point in points]  # the nearest vertices
        lists = spiral_lists(mesh, hops=plan.hops[number], references=references)
        length = spiral_length(lists) if plan.lengths is None else plan.lengths[number]
        levels.append(Level(mesh, fit_length(lists, length, dilation=plan.dilation[number])))
    return Hierarchy(tuple(levels), tuple(down), tuple(up))


def undilated_lengths(hierarchy: Hierarchy, plan: HierarchyPlan) -> tuple[int, ...]:
    """The ``lengths`` with which the plan gives the same hierarchy: those of the spirals before dilation."""
    if plan.lengths is not None:
        return plan.lengths
    return tuple(
        spirals if step == 1 else spiral_length(spiral_lists(level.mesh, hops=hops))
        for level, spirals, hops, step in zip(
            hierarchy.levels, hierarchy.lengths, plan.hops, plan.dilation, strict=True
        )
    )


@dataclass(frozen=True)
class LevelInfo:
    """One level of a hierarchy in numbers.

    Attributes:
        vertices: Number of vertices.
        faces: Number of faces.
        spiral: Length of the spirals.
        padding: Share of the spirals' entries that name no vertex.
        round_trip: Mean distance that a vertex moves by going to the next level and back, as a share of the template's
            size; None at the last level.
    """

    vertices: int
    faces: int
    spiral: int
    padding: float
    round_trip: float | None


def describe_levels(hierarchy: Hierarchy) -> list[LevelInfo]:
    """The levels of a hierarchy in numbers, the finest first."""
    finest = hierarchy.levels[0].mesh.vertices
    size = (finest.max(0).values - finest.min(0).values).norm()
    found = []
    for number, level in enumerate(hierarchy.levels):
        vertices, round_trip = level.mesh.vertices, None
        if number + 1 < len(hierarchy.levels):
            indices, weights = hierarchy.up[number]
            back = (hierarchy.levels[number + 1].mesh.vertices[indices] * weights[:, :, None]).sum(1)
            round_trip = float((back - vertices).norm(dim=1).mean() / size)
        padding = float((level.spirals == len(vertices)).double().mean())
        found.append(LevelInfo(len(vertices), len(level.mesh.faces), level.spirals.shape[1], padding, round_trip))
    return found


def cached_hierarchy(
    template: Mesh, plan: HierarchyPlan | None = None, folder: str | Path | None = None
) -> tuple[Hierarchy, Path]:
    """The hierarchy of a template and its file in the cache; built and written if it is not there.

    Args:
        template: The mesh.
        plan: The settings of the hierarchy.
        folder: The cache; ``$PINETS_CACHE/meshes``, or ``pinets/meshes`` in the user's cache, if left out.
    """
    plan = HierarchyPlan() if plan is None else plan
    plan.check()
    key = hashlib.sha256(f"{_VERSION} {template.digest()} {astuple(plan)}".encode()).hexdigest()
    path = (user_cache("meshes") if folder is None else Path(folder)) / f"{key[:24]}.safetensors"
    if path.is_file():
        try:
            return Hierarchy.load(path), path
        except MeshError:
            path.unlink()  # damaged: make it again
    hierarchy = build_hierarchy(template, plan)
    hierarchy.save(path)
    return hierarchy, path
