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

__all__ = ["Scaling", "farthest", "fold"]

_ROWS = 256  # rows processed at a time: all at once would take a second copy of the data


@dataclass(frozen=True)
class Scaling:
    r"""The affine map :math:`z = (x - \mathrm{mean}) / \mathrm{scale}` of every column; what is ignored is zero."""

    mean: Tensor
    scale: Tensor  # the standard deviation; one for constant columns
    ignored: Tensor  # whether each column counts for nothing, whatever it holds
    low: Tensor  # what smaller z are raised to
    high: Tensor  # what larger z are lowered to

    @classmethod
    def of(
        cls,
        name: str,
        columns: Any,
        weights: np.ndarray | None,
        *,
        ignore_constant: bool,
        farthest: float = np.inf,
        clip: bool = False,
    ) -> Scaling:
        """Weighted mean and standard deviation (one for constant columns), in float64; sparse columns stay sparse.

        Numbers are squared in units of the largest of their column, where no square overflows or vanishes.

        Args:
            name: What errors call the columns.
            columns: Dense or sparse columns of numbers.
            weights: The weights of the rows; equal if left out.
            ignore_constant: Whether columns that are constant count for nothing.
            farthest: The largest z, in size.
            clip: Whether z stays within what the columns hold.
        """
        samples, limits = columns.shape[0], np.finfo(columns.dtype)
        counts = np.ones(samples) if weights is None else weights / weights.max()
        share = counts / counts.sum()
        smallest, largest = _extremes(columns, share)
        size = np.maximum(np.abs(smallest), np.abs(largest))
        if not (size <= limits.max / 2).all():  # or differences would overflow
            raise ValueError(
                f"{name} must hold numbers of at most {limits.max / 2:.3g} in size, got {size.max():.3g}; "
                f"give it in larger units"
            )
        unit = np.ldexp(1.0, np.frexp(size)[1])  # powers of two, which divide without rounding
        mean, variance = (_sparse_moments if sparse.issparse(columns) else _moments)(columns, share, unit)
        constant = smallest == largest
        mean = np.where(constant, largest / unit, mean)
        scale = np.where(constant, 1.0, np.sqrt(variance) * unit)
        if not scale.astype(columns.dtype).all():
            raise ValueError(
                f"{name} must have columns that are constant or deviate by at least {limits.smallest_subnormal:.3g}, "
                f"got numbers up to {size[scale.astype(columns.dtype) == 0].max():.3g}; give it in smaller units"
            )
        low, high = np.full(len(mean), -farthest), np.full(len(mean), farthest)
        if clip:
            low = np.maximum(low, (smallest / unit - mean) / (scale / unit))
            high = np.minimum(high, (largest / unit - mean) / (scale / unit))
        return cls(*map(torch.tensor, (mean * unit, scale, constant & ignore_constant, low, high)))

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Scaling:
        mean, scale, low, high = (each.to(device, dtype) for each in (self.mean, self.scale, self.low, self.high))
        return Scaling(mean, scale, self.ignored.to(device), low, high)

    def apply(self, x: Tensor) -> Tensor:
        # in place: one copy of a batch
        return (x - self.mean).div_(self.scale).clamp_(self.low, self.high).masked_fill_(self.ignored, 0)

    def undo(self, z: Tensor) -> Tensor:
        return z * self.scale + self.mean


def farthest(order: int, dtype: Any) -> float:
    """The largest standardised value whose powers, times weights, stay finite."""
    return float(np.finfo(dtype).max) ** (0.5 / order)


def _extremes(columns: Any, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every column, in float64, among samples that count."""
    if sparse.issparse(columns):
        counted = columns[share > 0]
        return tuple(each.toarray().ravel().astype(np.float64) for each in (counted.min(axis=0), counted.max(axis=0)))
    smallest, largest = np.full(columns.shape[1], np.inf), np.full(columns.shape[1], -np.inf)
    for rows in gen_batches(len(columns), _ROWS):
        counted = columns[rows][share[rows] > 0]
        smallest = np.minimum(smallest, counted.min(axis=0, initial=np.inf))
        largest = np.maximum(largest, counted.max(axis=0, initial=-np.inf))
    return smallest, largest


def _moments(columns: np.ndarray, share: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance in the given units."""
    mean, variance = np.zeros_like(unit), np.zeros_like(unit)
    for rows in gen_batches(len(columns), _ROWS):
        mean += share[rows] @ (columns[rows] / unit)
    correction = np.zeros_like(unit)  # the sum above rounds at the size of the numbers, which may dwarf their deviation
    for rows in gen_batches(len(columns), _ROWS):
        correction += share[rows] @ (columns[rows] / unit - mean)
    mean += correction
    for rows in gen_batches(len(columns), _ROWS):
        variance += share[rows] @ (columns[rows] / unit - mean) ** 2
    return mean, variance


def _sparse_moments(columns: Any, share: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same: the entries that are there, and the mean squared for the share of those that are not.

    (Not scikit-learn's ``mean_variance_axis``: with weights, it can make the variance of a constant column negative.)
    """
    entries = columns.copy()
    entries.sum_duplicates()
    everywhere = np.bincount(entries.indices, minlength=entries.shape[1]) == entries.shape[0]
    data = entries.data / unit[entries.indices]
    mean = _with_data(entries, data).T @ share
    correction = _with_data(entries, data - mean[entries.indices]).T @ share
    mean = np.where(everywhere, mean + correction, mean)
    squares = _with_data(entries, (data - mean[entries.indices]) ** 2).T @ share
    present = _with_data(entries, np.ones(entries.nnz)).T @ share
    return mean, squares + mean**2 * np.where(everywhere, 0.0, np.maximum(0.0, 1 - present))


def _with_data(entries: Any, data: np.ndarray) -> Any:
    return type(entries)((data, entries.indices, entries.indptr), shape=entries.shape)


def fold(polynomial: Polynomial, features: Scaling, targets: Scaling | None) -> Polynomial:
    r"""The same polynomial of the raw features, in float64: :math:`A z = (A / s) x - (A / s) m` at every view of z.

    The scaling of the targets, where there is one, is folded into the head.
    """
    polynomial, features = copy.deepcopy(polynomial).to("cpu", torch.float64), features.to("cpu", torch.float64)

    def of_raw(view: nn.Module) -> nn.Linear:
        linear = cast("nn.Linear", view)
        weight = (linear.weight / features.scale).masked_fill(features.ignored, 0)
        bias = -weight @ features.mean
        return _linear(weight, bias if linear.bias is None else bias + linear.bias)

    head = cast("nn.Linear", polynomial.head)
    if targets is not None:
        head = _linear(head.weight * targets.scale[:, None], targets.undo(head.bias))
    steps = [
        Step(of_raw(step.gate), step.body, carry=dict(step.carry.items()))  # type: ignore[arg-type]
        for step in polynomial.steps
    ]
    return Polynomial(of_raw(polynomial.start), steps, head).eval()


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    if not (weight.isfinite().all() and bias.isfinite().all()):
        raise ValueError(
            f"the weights for raw features and targets must be below {torch.finfo(weight.dtype).max:.3g}, and are not; "
            f"fit to features in smaller units or targets in larger ones"
        )
    linear = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    return linear
