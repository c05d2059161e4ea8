"""Triangle meshes: reading, spirals, down- and up-sampling, and hierarchies of them kept on disk."""

from pinets.mesh.build import HierarchyPlan, build_hierarchy, cached_hierarchy
from pinets.mesh.decimation import collapse
from pinets.mesh.hierarchy import Hierarchy, Level
from pinets.mesh.mesh import Mesh, MeshError
from pinets.mesh.neighbours import ordered_neighbours
from pinets.mesh.projection import barycentric
from pinets.mesh.reading import read_mesh, write_mesh
from pinets.mesh.spirals import fit_length, spiral_length, spiral_lists

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
    "fit_length",
    "ordered_neighbours",
    "read_mesh",
    "spiral_length",
    "spiral_lists",
    "write_mesh",
]
