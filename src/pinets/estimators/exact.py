"""Fit a polynomial by its terms: a closed form for regression, a few steps of L-BFGS for classification.

The complete basis is used where its covariance takes less than a second; beyond, the terms that correlate with what
lower orders leave unexplained, more than chance would have it. The order and the strength of the penalty are chosen by
leave-one-out errors, and for classification by the log loss of held out rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pinets.estimators.solve import Coordinates, constant_for, ridge, select
from pinets.estimators.terms import Terms, extensions, screen

__all__ = ["TermFit", "fit_terms", "most_terms"]

OPERATIONS = 1.2e10  # for the covariance of the basis and its eigenvectors: less than a second of one core
CELLS = 3e7  # numbers in the basis: 240 MB
WORTH_PER_DEGREE = 0.3  # each further degree is scaled by this before the penalty, which so is harder on it


@dataclass(frozen=True)
class TermFit:
    """A polynomial: constants and coefficients of products of the columns, for every output."""

    terms: Terms
    coefficients: np.ndarray  # (terms, outputs)
    constant: np.ndarray
    order: int
    strength: float
    error: float  # mean squared leave-one-out error or mean log loss of held out rows


def most_terms(rows: int) -> int:
    """How many terms a fit to so many rows may have."""
    by_terms = 0.8 * min(math.sqrt(OPERATIONS / (2 * rows)), (OPERATIONS / 10) ** (1 / 3))
    by_rows = (OPERATIONS - 10 * rows**3) / (2 * rows**2)  # where there are more terms than rows
    return int(min(by_rows if by_rows > rows else by_terms, CELLS / rows))


@dataclass(frozen=True)
class _Basis:
    """Terms on the data, each centred and with variance one."""

    terms: Terms
    values: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    unit: float

    @classmethod
    def of(cls, terms: Terms, columns: np.ndarray, share: np.ndarray, unit: float) -> _Basis:
        values = terms.values(columns)
        mean = share @ values
        values -= mean
        scale = np.sqrt(share @ values**2)
        scale[scale <= 1e-12 * (1 + np.abs(mean))] = np.inf  # constant on the data: never used
        values /= scale
        return cls(terms, values, mean, scale, share, unit)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Of the terms up to the highest degree at which they are not more than the rows."""
        counts = np.cumsum([len(products) for products in self.terms.of_degree])
        values = self.values[:, : counts[counts <= len(self.values)].max(initial=0)]
        return values.T @ (self.share[:, None] * values)

    @cached_property
    def kernels(self) -> list[np.ndarray]:
        """The products of every two rows, one matrix for each degree."""
        degrees = self.terms.degrees
        parts = (self.values[:, degrees == degree] for degree in range(1, len(self.terms.of_degree) + 1))
        return [part @ part.T for part in parts]

    def coordinates(self, order: int, per_degree: float) -> Coordinates:
        """The terms up to an order, those of each further degree scaled down; ``back`` undoes the scaling."""
        degrees = self.terms.degrees
        count = int((degrees <= order).sum())
        worth, values = per_degree ** (degrees[:count] - 1.0), self.values[:, :count]
        if count <= len(values):
            return Coordinates.of_basis(values, self.covariance[:count, :count], worth, self.share, self.unit)
        kernel = sum(per_degree ** (2 * power) * part for power, part in enumerate(self.kernels[:order]))
        of_rows = Coordinates.of_kernel(np.asarray(kernel), self.share, self.unit)
        back = worth[:, None] ** 2 * (values.T @ of_rows.back)
        return replace(of_rows, back=back)

    def polynomial(
        self, order: int, coefficients: np.ndarray, constant: np.ndarray
    ) -> tuple[Terms, np.ndarray, np.ndarray]:
        """Terms, coefficients and constants of plain products, from those of the centred and scaled ones."""
        plain = coefficients / self.scale[: len(coefficients), None]
        return self.terms.up_to(order), plain, constant - self.mean[: len(plain)] @ plain


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
    basis = _make_basis(columns, centred, share, allowed, orders[-1], unit)
    orders = tuple(order for order in orders if order <= len(basis.terms.of_degree)) or (len(basis.terms.of_degree),)
    if not len(basis.terms):
        return TermFit(
            basis.terms, np.zeros((0, targets.shape[1])), constant_for(mean, classify), 1, strength or 0.0, 1.0
        )
    candidates = [basis.coordinates(order, _worth(strength)) for order in orders]
    chosen = select(candidates, targets, strength, classify=classify)
    order, back = orders[chosen.position], candidates[chosen.position].back
    terms, coefficients, constant = basis.polynomial(order, back @ chosen.coefficients, chosen.constant)
    return TermFit(terms, coefficients, constant, order, chosen.strength, chosen.error)


def _make_basis(
    columns: np.ndarray, centred: np.ndarray, share: np.ndarray, allowed: np.ndarray, order: int, unit: float
) -> _Basis:
    """All terms up to an order, or as many as a fit may have: those that explain most of what lower orders leave."""
    limit = most_terms(len(columns))
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
            basis = _Basis.of(terms, columns, share, unit)
            lower = ridge(basis.coordinates(degree - 1, WORTH_PER_DEGREE), centred)
            room = room // (order - degree + 1)
            products = screen(columns, last, new, centred - lower.fitted, share, room)
        if not len(products):
            break
        terms = Terms((*terms.of_degree, products))
    return _Basis.of(terms, columns, share, unit)


def _worth(strength: float | None) -> float:
    """A penalty that the user gives is the same for all terms."""
    return WORTH_PER_DEGREE if strength is None else 1.0
