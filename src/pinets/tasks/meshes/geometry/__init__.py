"""Triangle meshes: reading, spirals, down- and up-sampling, and hierarchies of them kept on disk."""

from pinets.operators.hierarchy import Hierarchy, Level
from pinets.operators.mesh import Mesh, MeshError
from pinets.tasks.meshes.geometry.files import read_mesh, write_mesh
from pinets.tasks.meshes.geometry.hierarchy import (
    HierarchyPlan,
    build_hierarchy,
    cached_hierarchy,
    describe_levels,
    undilated_lengths,
)
from pinets.tasks.meshes.geometry.resampling import barycentric, collapse
from pinets.tasks.meshes.geometry.spirals import fit_length, ordered_neighbours, spiral_length, spiral_lists

__all__ = [
    "Hierarchy",
    "HierarchyPlan",
    "Level",
    "Mesh",
    "MeshError",
    "barycentric",
    "build_hierarchy",
    "cached_hierarchy",
    "collapse",
    "describe_levels",
    "fit_length",
    "ordered_neighbours",
    "read_mesh",
    "spiral_length",
    "spiral_lists",
    "undilated_lengths",
    "write_mesh",
]
