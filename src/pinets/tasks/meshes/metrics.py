"""Distances of reconstructed vertices from the true ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pinets.engine.task import Reduce

__all__ = ["VertexError", "vertex_distances"]


def vertex_distances(predicted: Tensor, true: Tensor) -> Tensor:
    """The Euclidean distance of each vertex, (..., V); infinite where the prediction is not finite.

    >>> vertex_distances(torch.tensor([[3.0, 4.0, 0.0], [float("nan"), 0.0, 0.0]]), torch.zeros(2, 3))
    tensor([5., inf])
    """
    return torch.linalg.vector_norm(predicted - true, dim=-1).nan_to_num(nan=math.inf, posinf=math.inf)


class VertexError:
    """Mean, deviation and median of the distances over all vertices of all shapes, and how many are not finite.

    A vertex that is not finite counts as infinitely far: it is never left out, and the mean says so. Mean and
    deviation are exact; the median comes from a histogram whose bins are 0.1 % wide, so that any number of shapes and
    processes can be summed.

    Args:
        millimetres: How many of them the unit of the positions has.

    Example:
        >>> error = VertexError(millimetres=1000)
        >>> error.update(torch.tensor([[[0.001, 0, 0], [0.003, 0, 0]]]), torch.zeros(1, 2, 3))
        >>> print(f"{error.compute()['error_mm']:.3f}")
        2.000
    """

    higher_is_better = False
    _LOWEST, _WIDTH, _BINS = 1e-7, math.log(1.001), 34_000  # 1e-7 mm to 5e7 mm

    def __init__(self, millimetres: float) -> None:
        if not millimetres > 0:
            raise ValueError(f"millimetres must be positive, got {millimetres}")
        self.millimetres = millimetres
        self.sums = torch.zeros(4, dtype=torch.float64)  # count, sum, sum of squares, not finite
        self.histogram = torch.zeros(self._BINS, dtype=torch.float64)

    def update(self, predicted: Tensor, true: Tensor) -> None:
        """Add shapes, (batch, V, 3)."""
        distances = (self.millimetres * vertex_distances(predicted.double(), true.double())).flatten().cpu()
        finite = torch.isfinite(distances)
        self.sums += torch.stack(
            [torch.tensor(float(len(distances))), distances.sum(), distances.square().sum(), (~finite).sum()]
        )
        bins = ((distances.clamp_min(self._LOWEST) / self._LOWEST).log() / self._WIDTH).clamp(max=self._BINS - 1)
        self.histogram += torch.bincount(bins.long(), minlength=self._BINS)

    def compute(self, reduce: Reduce = lambda total: total) -> dict[str, float]:
        count, total, squares, broken = reduce(self.sums).tolist()
        mean = total / count
        variance = squares / count - mean**2 if math.isfinite(squares) else math.inf
        reached = reduce(self.histogram).cumsum(0)
        middle = int(torch.searchsorted(reached, reached[-1] / 2))
        median = self._LOWEST * math.exp((middle + 0.5) * self._WIDTH) if middle < self._BINS - 1 else math.inf
        return {
            "error_mm": mean,
            "deviation_mm": math.sqrt(max(variance, 0.0)),
            "median_mm": median,
            "non_finite": broken,
        }
