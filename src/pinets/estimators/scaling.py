"""Standardisation of features and targets: fitted on dense or sparse columns, applied to a batch, or folded away."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import gen_batches
from torch import Tensor, nn

from pinets.polynomial import Polynomial, Step

__all__ = ["Scaling", "fold"]


@dataclass(frozen=True)
class Scaling:
    r"""The affine map :math:`z = (x - \mathrm{mean}) / \mathrm{scale}` of every column."""

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, columns: Any, weights: np.ndarray | None) -> Scaling:
        """Weighted mean and standard deviation (one for constant columns), in float64; sparse columns stay sparse."""
        samples = columns.shape[0]
        share = np.full(samples, 1 / samples) if weights is None else weights / weights.sum()
        mean = columns.T @ share
        deviation = np.sqrt((_sparse_variance if sparse.issparse(columns) else _variance)(columns, mean, share))
        rounding = samples * np.finfo(np.float64).eps * np.abs(mean)  # what a constant column may deviate by
        scale = np.where(deviation > rounding, deviation, 1.0)
        return cls(torch.tensor(mean, dtype=torch.float64), torch.tensor(scale, dtype=torch.float64))

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Scaling:
        return Scaling(self.mean.to(device, dtype), self.scale.to(device, dtype))

    def apply(self, x: Tensor) -> Tensor:
        return (x - self.mean).div_(self.scale)  # in place: one copy of a batch, not two

    def undo(self, z: Tensor) -> Tensor:
        return z * self.scale + self.mean


def _variance(columns: np.ndarray, mean: np.ndarray, share: np.ndarray) -> np.ndarray:
    total = np.zeros_like(mean)
    for rows in gen_batches(len(columns), 256):  # not all at once: that would take a second copy of the data
        total += share[rows] @ (columns[rows] - mean) ** 2
    return total


def _sparse_variance(columns: Any, mean: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The entries that are there, and the mean squared for the share of those that are not.

    (Not scikit-learn's ``mean_variance_axis``: with weights, it can make the variance of a constant column negative.)
    """
    entries = columns.copy()
    entries.sum_duplicates()
    everywhere = np.bincount(entries.indices, minlength=entries.shape[1]) == entries.shape[0]
    squares = _with_data(entries, (entries.data - mean[entries.indices]) ** 2).T @ share
    present = _with_data(entries, np.ones(entries.nnz)).T @ share
    return squares + mean**2 * np.where(everywhere, 0.0, np.maximum(0.0, 1 - present))


def _with_data(entries: Any, data: np.ndarray) -> Any:
    return type(entries)((data, entries.indices, entries.indptr), shape=entries.shape)


def fold(polynomial: Polynomial, features: Scaling, targets: Scaling | None) -> Polynomial:
    r"""The same polynomial of the raw features, in float64: :math:`A z = (A / s) x - (A / s) m` at every view of z.

    The scaling of the targets, where there is one, is folded into the head.
    """
    polynomial, features = copy.deepcopy(polynomial).to("cpu", torch.float64), features.to("cpu", torch.float64)

    def of_raw(view: nn.Module) -> nn.Linear:
        weight = cast("nn.Linear", view).weight / features.scale
        return _linear(weight, -weight @ features.mean)

    head = cast("nn.Linear", polynomial.head)
    if targets is not None:
        head = _linear(head.weight * targets.scale[:, None], targets.undo(head.bias))
    steps = [
        Step(of_raw(step.gate), step.body, carry=dict(step.carry.items()))  # type: ignore[arg-type]
        for step in polynomial.steps
    ]
    return Polynomial(of_raw(polynomial.start), steps, head).eval()


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    return linear
