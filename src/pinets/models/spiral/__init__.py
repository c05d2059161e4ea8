"""Spiral networks and Spiral Π-nets on meshes of one topology."""

from pinets.models.spiral.autoencoder import MeshAutoencoder
from pinets.models.spiral.build import spiral_autoencoder
from pinets.models.spiral.graph import GraphLayer, graph_autoencoder
from pinets.models.spiral.layers import SpiralPolynomial, full_layer, plain_layer, simple_layer
from pinets.models.spiral.norms import VertexBatchNorm, VertexInstanceNorm
from pinets.models.spiral.pca import MeshPCA

__all__ = [
    "GraphLayer",
    "MeshAutoencoder",
    "MeshPCA",
    "SpiralPolynomial",
    "VertexBatchNorm",
    "VertexInstanceNorm",
    "full_layer",
    "graph_autoencoder",
    "plain_layer",
    "simple_layer",
    "spiral_autoencoder",
]
