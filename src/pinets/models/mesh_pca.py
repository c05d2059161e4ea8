"""Principal component analysis of shapes: the linear autoencoder with the least squared error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets.layers.build import check_at_least_one

__all__ = ["MeshPCA"]


class MeshPCA(nn.Module):
    r"""Encode shapes as coefficients of the directions in which the training shapes differ most.

    .. math:: z = P^T (\sigma * x), \qquad y = (P z) / \sigma

    The input is standardised as for the networks; :math:`\sigma` undoes that, so the components are those of the
    positions. Nothing is trained by gradient: :meth:`fit` computes the components.

    Args:
        vertices: Number of vertices of a shape.
        latent: Number of components.
    """

    scale: Tensor

    def __init__(self, vertices: int, latent: int) -> None:
        super().__init__()
        check_at_least_one("vertices", vertices)
        self.latent = check_at_least_one("latent", latent)
        self.components = nn.Parameter(torch.zeros(3 * vertices, latent))  # P
        self.register_buffer("scale", torch.ones(vertices, 3))  # sigma

    @torch.no_grad()
    def fit(self, shapes: Tensor, mean: Tensor, scale: Tensor) -> None:
        """Compute the components of shapes, (N, V, 3), around their mean, (V, 3); ``scale`` is their deviation."""
        if len(shapes) < self.latent:
            raise ValueError(f"{self.latent} components need at least as many shapes, got {len(shapes)}")
        centred = (shapes - mean).flatten(1).double()
        few = len(centred) < centred.shape[1]  # take the smaller of the two Gram matrices
        _, vectors = torch.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
        largest = vectors[:, -self.latent :].flip(1)
        # orthonormal also where the shapes have fewer independent directions than components
        components = torch.linalg.qr(centred.T @ largest).Q if few else largest
        self.components.copy_(components)
        self.scale.copy_(scale)

    def encode(self, x: Tensor) -> Tensor:
        """Shapes, (batch, V, 3), as vectors, (batch, latent)."""
        return (x * self.scale).flatten(1) @ self.components

    def decode(self, z: Tensor) -> Tensor:
        """Vectors, (batch, latent), as shapes, (batch, V, 3)."""
        return (z @ self.components.T).unflatten(1, self.scale.shape) / self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))
