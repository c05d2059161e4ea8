"""The Fréchet distance between Gaussians, from sums that are collected batch by batch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Moments", "frechet_distance"]


class Moments:
    """Mean and covariance of features; keeps two sums in float64, however many features it sees.

    >>> moments = Moments(2)
    >>> moments.update(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> moments.update(torch.tensor([[4.0, 1.0]]))
    >>> moments.mean
    tensor([2., 1.], dtype=torch.float64)
    >>> moments.covariance
    tensor([[4., 0.], [0., 0.]], dtype=torch.float64)
    """

    def __init__(self, num_features: int) -> None:
        self.count = 0
        self.total = torch.zeros(num_features, dtype=torch.float64)
        self.products = torch.zeros(num_features, num_features, dtype=torch.float64)

    def update(self, features: Tensor) -> None:
        """Add features (N, D)."""
        rows = features.detach().to("cpu", torch.float64)
        self.count += len(rows)
        self.total += rows.sum(dim=0)
        self.products.addmm_(rows.T, rows)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def covariance(self) -> Tensor:
        if self.count < 2:
            raise ValueError(f"a covariance needs at least 2 samples, got {self.count}")
        return (self.products - self.count * torch.outer(self.mean, self.mean)) / (self.count - 1)


def frechet_distance(mean1: Tensor, covariance1: Tensor, mean2: Tensor, covariance2: Tensor) -> float:
    r"""The squared Fréchet (2-Wasserstein) distance between two Gaussians.

    .. math:: |\mu_1 - \mu_2|^2 + \mathrm{tr}(\Sigma_1 + \Sigma_2 - 2 (\Sigma_1 \Sigma_2)^{1/2})

    The trace of the last root is the sum of the singular values of :math:`\Sigma_1^{1/2} \Sigma_2^{1/2}`. That is exact
    also without full rank, where roots of the eigenvalues of :math:`\Sigma_1 \Sigma_2` make much of rounding errors.

    Example:
        >>> one, two = torch.eye(3), 4 * torch.eye(3)
        >>> frechet_distance(torch.zeros(3), one, torch.ones(3), two)  # 3 of the means, 3 * (2 - 1)^2 of the rest
        6.0
    """
    mean1, covariance1, mean2, covariance2 = (t.double() for t in (mean1, covariance1, mean2, covariance2))
    overlap = torch.linalg.svdvals(_root(covariance1) @ _root(covariance2)).sum()
    distance = (mean1 - mean2).square().sum() + covariance1.trace() + covariance2.trace() - 2 * overlap
    return float(distance)


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T
