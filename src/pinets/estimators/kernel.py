r"""Fit a polynomial to few rows of many columns: a CCP whose factors are the rows themselves.

By the representer theorem the best penalised fit is a sum over the training rows :math:`x_i` of
:math:`a_i \, s_i (1 + \gamma s_i)^{N-1}` with :math:`s_i = x_i^T z / d`: a coupled CP decomposition of rank
:math:`n`, found from the products of every two rows, whatever the number of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pinets.estimators.solve import Coordinates, choose_logistic, logistic, ridge

__all__ = ["RowFit", "fit_rows"]

_CURVATURE = 0.5  # gamma, relative to the value that makes the second degree as large as the first


@dataclass(frozen=True)
class RowFit:
    """The factors and weights of a CCP: views of the input for every order, and the head."""

    factors: tuple[np.ndarray, ...]  # U_n^T, of shape (rows, columns)
    coefficients: np.ndarray  # (rows, outputs)
    constant: np.ndarray
    order: int
    strength: float
    error: float


def fit_rows(
    columns: np.ndarray,
    targets: np.ndarray,
    share: np.ndarray,
    *,
    orders: tuple[int, ...],
    strength: float | None = None,
    classify: bool = False,
    unit: float | None = None,
) -> RowFit:
    """Fit a polynomial of standardised columns; the arguments are those of ``fit_terms`` in :mod:`.exact`."""
    products = columns @ columns.T / columns.shape[1]
    unit = 1 / len(columns) if unit is None else unit
    typical = 1 / math.sqrt(max(float(share @ products**2 @ share), 1e-300))
    gamma = _CURVATURE * typical

    def kernel(order: int) -> np.ndarray:
        return products * (1 + gamma * products) ** (order - 1)

    candidates = [Coordinates.of_kernel(_centre(kernel(order), share), share, unit) for order in orders]
    mean = share @ targets
    squares = strength if strength is None or not classify else 4 * strength  # the log loss bends a quarter as much
    fits = [ridge(each, targets - mean, squares) for each in candidates]
    position = min(range(len(fits)), key=lambda position: fits[position].error)
    order, best, fit = orders[position], candidates[position], fits[position]
    chosen, error = fit.strength, fit.error
    constant, coefficients = mean, fit.coefficients
    if classify:
        found = choose_logistic(best, targets, strength)
        chosen, error = found.strength, found.error
        point = logistic(best.values, best.spectrum, targets, share, chosen, found.point)
        constant, coefficients = point[0], point[1:]
    weights = best.back @ coefficients
    weights = weights - share[:, None] * weights.sum(axis=0)  # the features of the kernel were centred
    constant = constant - share @ (kernel(order) @ weights)
    start = columns / columns.shape[1]
    return RowFit((start, *(gamma * start for _ in range(order - 1))), weights, constant, order, chosen, error)


def _centre(kernel: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The kernel of the same features with mean zero."""
    mean = kernel @ share
    return kernel - mean[:, None] - mean[None, :] + share @ mean
