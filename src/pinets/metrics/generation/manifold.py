"""Precision and recall: how much of the one distribution lies within the other."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["precision_recall"]

_ROWS = 1000  # of the matrix of distances that are held at a time


def precision_recall(real: Tensor, fake: Tensor, k: int = 3) -> tuple[float, float]:
    """The share of fakes that lie among the real ones, and of real ones that lie among the fakes.

    A sample lies among others if it is within the distance of one of them to its ``k``-th nearest neighbour
    (Kynkäänniemi et al. 2019, with the features given here).

    Args:
        real: Features (M, D).
        fake: Features (N, D).
        k: Which neighbour.

    Example:
        >>> real = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
        >>> precision_recall(real, torch.tensor([[0.5], [1.5], [40.0], [41.0]]), k=1)
        (0.5, 0.75)
    """
    if min(len(real), len(fake)) <= k:
        raise ValueError(f"neighbour {k} needs more than {k} samples of either kind, got {len(real)} and {len(fake)}")
    return _share_within(fake, real, k), _share_within(real, fake, k)


def _share_within(samples: Tensor, others: Tensor, k: int) -> float:
    radii = torch.cat([_neighbour(others, first, k) for first in range(0, len(others), _ROWS)])
    inside = [(torch.cdist(part, others) <= radii).any(dim=1) for part in samples.split(_ROWS)]
    return float(torch.cat(inside).double().mean())


def _neighbour(features: Tensor, first: int, k: int) -> Tensor:
    """Of some rows, the distance to the k-th nearest other row."""
    distances = torch.cdist(features[first : first + _ROWS], features)
    distances.diagonal(first).fill_(torch.inf)  # nobody is its own neighbour
    return distances.kthvalue(k, dim=1).values
