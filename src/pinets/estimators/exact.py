"""Fit a polynomial by its terms: a closed form for regression, a few steps of L-BFGS for classification.

The complete basis is used where its covariance takes less than a second; beyond, the terms that correlate with what
lower orders leave unexplained, more than chance would have it. The order and the strength of the penalty are chosen by
leave-one-out errors: those of least squares, and for classes the strength by the log loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import gen_batches

from pinets.estimators.solve import (
    Coordinates,
    Logistic,
    Ridge,
    choose_logistic,
    constant_for,
    logistic,
    ridge,
    rows_to_choose_by,
)
from pinets.estimators.terms import Terms, extensions, screen

__all__ = ["TermFit", "fit_terms", "most_terms"]

OPERATIONS = 3e10  # for the covariance of the basis and its eigenvectors: about a second of one core
CELLS = 3e7  # numbers in the basis: 240 MB
_BLOCK = 500_000  # numbers of the basis made at a time, which fit into the processor's cache
WORTH_PER_DEGREE = 0.3  # scale of each further degree before the penalty, which makes the penalty harder on it


@dataclass(frozen=True)
class TermFit:
    """A polynomial: constants and coefficients of products of the columns, for every output."""

    terms: Terms
    coefficients: np.ndarray  # (terms, outputs)
    constant: np.ndarray
    order: int
    strength: float
    error: float  # mean leave-one-out error: squares, or the log loss for classes


def most_terms(rows: int) -> int:
    """The largest number of terms whose covariance is affordable for this many rows."""
    return int(min(0.8 * math.sqrt(OPERATIONS / (2 * rows)), 0.8 * (OPERATIONS / 10) ** (1 / 3), CELLS / rows))


@dataclass(frozen=True)
class _Basis:
    """Terms on the data, each centred and with variance one."""

    terms: Terms
    columns: np.ndarray  # of which the terms are products
    targets: np.ndarray  # centred, of shape (rows, outputs)
    share: np.ndarray  # the weights of the rows, which sum to one
    unit: float  # the weight of one sample
    mean: np.ndarray  # of every product
    scale: np.ndarray  # its deviation; infinite where it is constant on the data
    covariance: np.ndarray
    moments: np.ndarray  # the mean products of terms and targets

    @classmethod
    def of(cls, terms: Terms, columns: np.ndarray, targets: np.ndarray, share: np.ndarray, unit: float) -> _Basis:
        rows, count = len(columns), len(terms)
        shift, mean = np.zeros(count), np.zeros(count)
        covariance, moments = np.zeros((count, count)), np.zeros((count, targets.shape[1]))
        for block in gen_batches(rows, max(1, _BLOCK // max(1, count))):
            weights = share[block]
            values = terms.values(columns[block])
            if block.start == 0:
                shift = weights @ values / weights.sum()  # near the mean: little is lost when its square is taken off
            values -= shift
            mean += weights @ values
            moments += values.T @ (weights[:, None] * targets[block])
            values *= np.sqrt(weights)[:, None]
            covariance += values.T @ values
        covariance -= np.outer(mean, mean)
        mean += shift
        scale = np.sqrt(np.maximum(covariance.diagonal(), 0))
        scale[scale <= 1e-7 * (1 + np.abs(mean))] = np.inf  # constant on the data: never used
        covariance /= scale * scale[:, None]
        moments /= scale[:, None]
        return cls(terms, columns, targets, share, unit, mean, scale, covariance, moments)

    def values(self, rows: np.ndarray | slice, order: int) -> np.ndarray:
        """The terms up to an order in some rows."""
        values = self.terms.up_to(order).values(self.columns[rows])
        values -= self.mean[: values.shape[1]]
        values /= self.scale[: values.shape[1]]
        return values

    def fit(self, order: int, strength: float | None, per_degree: float) -> _Fit:
        """Ridge regression on the terms up to an order, those of each further degree scaled down."""
        degrees = self.terms.degrees
        count = int((degrees <= order).sum())
        worth = per_degree ** (degrees[:count] - 1.0)
        rows = rows_to_choose_by(len(self.columns))
        coordinates = Coordinates.of_basis(
            self.values(rows, order), self.covariance[:count, :count], worth, self.share[rows], self.unit
        )
        found = ridge(coordinates, self.targets[rows], strength, coordinates.back.T @ self.moments[:count])
        return _Fit(order, rows, coordinates, found)

    def logistic(self, fit: _Fit, targets: np.ndarray, strength: float | None) -> Logistic:
        """Logistic regression in the directions of a fit."""
        chosen = choose_logistic(fit.coordinates, targets[fit.rows], strength)
        everything, some = len(self.columns), len(fit.rows)
        if strength is None:  # the best strength falls with the number of rows
            chosen = replace(chosen, strength=chosen.strength * some / everything)
        W = fit.coordinates.values
        if some < everything:  # single precision is far below the error of the fit, and memory is what a step waits for
            back = fit.coordinates.back
            W = np.empty((everything, back.shape[1]), dtype=np.float32)
            for block in gen_batches(everything, max(1, _BLOCK // len(back))):
                W[block] = self.values(block, fit.order) @ back
        tolerance = 1e-6 if some == everything else 3e-5
        point = logistic(W, fit.coordinates.spectrum, targets, self.share, chosen.strength, chosen.point, tolerance)
        return replace(chosen, point=point)

    def polynomial(self, coefficients: np.ndarray, constant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and constants of plain products, from those of the centred and scaled ones."""
        plain = coefficients / self.scale[: len(coefficients), None]
        return plain, constant - self.mean[: len(plain)] @ plain

    def residuals(self, fit: _Fit) -> np.ndarray:
        """The residuals of a ridge regression."""
        plain, constant = self.polynomial(fit.coordinates.back @ fit.ridge.coefficients, np.zeros(1))
        terms = self.terms.up_to(fit.order)
        left = self.targets - constant
        for block in gen_batches(len(left), max(1, _BLOCK // len(plain))):
            left[block] -= terms.values(self.columns[block]) @ plain
        return left


@dataclass(frozen=True)
class _Fit:
    """A ridge regression on the terms up to an order, and the rows that its coordinates hold."""

    order: int
    rows: np.ndarray
    coordinates: Coordinates
    ridge: Ridge


def fit_terms(
    columns: np.ndarray,
    targets: np.ndarray,
    share: np.ndarray,
    allowed: np.ndarray,
    *,
    orders: tuple[int, ...],
    strength: float | None = None,
    classify: bool = False,
    unit: float | None = None,
) -> TermFit:
    """Fit a polynomial of standardised columns.

    Args:
        columns: Of shape (rows, columns); columns of zeros are left out.
        targets: Of shape (rows, outputs); for classes, one column of zeros and ones for two, else one for each.
        share: The weights of the rows, which sum to one.
        allowed: Which columns may be multiplied (see :func:`~pinets.estimators.terms.allowed_products`).
        orders: The degrees to choose from, in ascending order.
        strength: The penalty; chosen if left out.
        classify: Logistic regression instead of least squares.
        unit: The weight of one sample; every row is one if left out.
    """
    unit = 1 / len(columns) if unit is None else unit
    mean = share @ targets
    centred = targets - mean
    per_degree = WORTH_PER_DEGREE if strength is None else 1.0  # a penalty that the user gives is the same for all
    basis = _make_basis(columns, centred, share, allowed, orders[-1], unit)
    orders = tuple(order for order in orders if order <= len(basis.terms.of_degree)) or (len(basis.terms.of_degree),)
    if not len(basis.terms):
        return TermFit(
            basis.terms, np.zeros((0, targets.shape[1])), constant_for(mean, classify), 1, strength or 0.0, 1.0
        )
    squares = strength if strength is None or not classify else 4 * strength  # the log loss bends a quarter as much
    best = min((basis.fit(order, squares, per_degree) for order in orders), key=lambda fit: fit.ridge.error)
    back = best.coordinates.back
    if classify:
        found = basis.logistic(best, targets, strength)
        coefficients, constant = basis.polynomial(back @ found.point[1:], found.point[0])
        strength, error = found.strength, found.error
    else:
        coefficients, constant = basis.polynomial(back @ best.ridge.coefficients, mean)
        strength, error = best.ridge.strength, best.ridge.error
    return TermFit(basis.terms.up_to(best.order), coefficients, constant, best.order, strength, error)


def _make_basis(
    columns: np.ndarray, centred: np.ndarray, share: np.ndarray, allowed: np.ndarray, order: int, unit: float
) -> _Basis:
    """All terms up to an order, or as many as a fit may have: those that explain most of what lower orders leave."""
    limit = min(most_terms(len(columns)), len(columns))
    used = np.flatnonzero(columns.any(axis=0))
    terms = Terms((used[:, None],)) if len(used) else Terms(())
    for degree in range(2, order + 1) if len(used) else ():
        last = terms.of_degree[-1]
        new = extensions(last, allowed) & columns.any(axis=0)
        room = max(0, limit - len(terms))
        if new.sum() <= room:
            term, column = np.nonzero(new)
            products = np.column_stack([last[term], column])
        else:
            basis = _Basis.of(terms, columns, centred, share, unit)
            residuals = basis.residuals(basis.fit(degree - 1, None, WORTH_PER_DEGREE))
            products = screen(columns, last, new, residuals, share, room // (order - degree + 1))
        if not len(products):
            break
        terms = Terms((*terms.of_degree, products))
    return _Basis.of(terms, columns, centred, share, unit)
