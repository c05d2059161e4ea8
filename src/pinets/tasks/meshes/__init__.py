"""Autoencoders of shapes, meshes of one topology: data, recipes, training, and what a trained one makes of shapes."""

from pinets.tasks.meshes import catalogue, geometry
from pinets.tasks.meshes.mesh_set import MeshSet, Standardize, mesh_splits, reduce_shapes
from pinets.tasks.meshes.metrics import VertexError, vertex_distances
from pinets.tasks.meshes.readers import read_shapes
from pinets.tasks.meshes.recipe import PCA, AutoencodingRecipe, Graph, Shapes, Spiral
from pinets.tasks.meshes.report import write_mesh_report
from pinets.tasks.meshes.shape_model import ShapeModel, load_shape_model
from pinets.tasks.meshes.task import MeshAutoencoding

__all__ = [
    "PCA",
    "AutoencodingRecipe",
    "Graph",
    "MeshAutoencoding",
    "MeshSet",
    "ShapeModel",
    "Shapes",
    "Spiral",
    "Standardize",
    "VertexError",
    "catalogue",
    "geometry",
    "load_shape_model",
    "mesh_splits",
    "read_shapes",
    "reduce_shapes",
    "vertex_distances",
    "write_mesh_report",
]
