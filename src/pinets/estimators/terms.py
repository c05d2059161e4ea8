"""Products of columns: a list of them, their values on the data, and those that explain a residual."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Terms", "allowed_products", "extensions", "screen"]

_CELLS = 4_000_000  # numbers of products made at a time (32 MB)


@dataclass(frozen=True)
class Terms:
    """Products of columns, by degree: ``of_degree[k - 1]`` has shape (terms, k) and holds ascending column numbers.

    >>> Terms.of([(0,), (0, 2), (1, 1)]).values(np.array([[2.0, 3.0, 5.0]]))
    array([[ 2., 10.,  9.]])
    """

    of_degree: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, products: list[tuple[int, ...]]) -> Terms:
        """Terms from tuples of column numbers; those of one degree keep their order."""
        highest = max(map(len, products), default=0)
        return cls(
            tuple(
                np.array([sorted(product) for product in products if len(product) == degree], dtype=np.intp).reshape(
                    -1, degree
                )
                for degree in range(1, highest + 1)
            )
        )

    def __len__(self) -> int:
        return sum(map(len, self.of_degree))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for products in self.of_degree:
            yield from map(tuple, products.tolist())

    @property
    def degrees(self) -> np.ndarray:
        return np.repeat(np.arange(1, len(self.of_degree) + 1), [len(products) for products in self.of_degree])

    def up_to(self, degree: int) -> Terms:
        return Terms(self.of_degree[:degree])

    def values(self, columns: np.ndarray) -> np.ndarray:
        """The value of every term in every row, of shape (rows, terms)."""
        by_column = np.ascontiguousarray(columns.T)  # whole columns are copied faster than single numbers
        out = np.empty((len(self), len(columns)))
        start = 0
        for products in self.of_degree:
            block = out[start : start + len(products)]
            start += len(products)
            for position, factor in enumerate(products.T):
                if position:
                    block *= by_column[factor]
                else:
                    np.take(by_column, factor, axis=0, out=block)
        return out.T


def allowed_products(columns: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Which pairs of columns may be multiplied, as a symmetric matrix of flags.

    Products within a group (two categories of one column) are always zero, and the square of a column with two values
    says nothing that the column does not; nor does that of a column with two values where its indicator of missing
    numbers is off.

    Args:
        columns: The data, of shape (rows, columns).
        groups: For every column the number of its group; columns of their own have numbers of their own.
    """
    allowed = groups[:, None] != groups[None, :]
    low, high = columns.min(axis=0), columns.max(axis=0)
    two_values = ((columns == low) | (columns == high)).all(axis=0)
    for column in np.flatnonzero(~two_values):
        others = (groups == groups[column]) & (np.arange(len(groups)) != column)
        if others.any():
            known = columns[(columns[:, others] == low[others]).all(axis=1), column]
            two_values[column] = ((known == known.min()) | (known == known.max())).all()
    np.fill_diagonal(allowed, ~two_values)
    return allowed


def extensions(products: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Flags of shape (terms, columns): whether a term times a column is a new term, each of which is named once."""
    ahead = np.arange(allowed.shape[1]) >= products[:, -1:]
    return ahead & allowed[products].all(axis=1)


def screen(
    columns: np.ndarray, products: np.ndarray, new: np.ndarray, residuals: np.ndarray, share: np.ndarray, keep: int
) -> np.ndarray:
    """The ``keep`` extensions of terms that correlate most with residuals, found by matrix products alone.

    Of many candidates some correlate by chance: only those count whose correlation none of them would be likely to have
    if all were independent of the residuals (the bound on the largest of as many chi-square variables).

    Args:
        columns: The data.
        products: The terms to extend by one column.
        new: Which extensions count (see :func:`extensions`).
        residuals: What is to be explained, of shape (rows, outputs) and with mean zero.
        share: The weights of the rows, which sum to one.
        keep: How many to return, at most.
    """
    scores = np.full(new.shape, -np.inf)
    squares = columns**2
    chunk = max(1, _CELLS // len(columns))
    for start in range(0, len(products), chunk):
        rows = slice(start, start + chunk)
        values = Terms.of([tuple(product) for product in products[rows].tolist()]).values(columns)
        weighted = values * share[:, None]
        variance = (weighted * values).T @ squares - (weighted.T @ columns) ** 2
        gain = np.zeros_like(variance)
        for residual, size in zip(residuals.T, share @ residuals**2, strict=True):
            gain += ((weighted * residual[:, None]).T @ columns) ** 2 / max(size, 1e-300)
        useful = new[rows] & (variance > 1e-12)
        scores[rows][useful] = gain[useful] / variance[useful]
    flat = scores.ravel() / (share @ share)  # times the number of rows, if all count alike
    outputs, chance = residuals.shape[1], math.log(max(2, int(new.sum())))
    beyond_chance = flat > outputs + 2 * math.sqrt(outputs * chance) + 2 * chance
    best = np.argsort(-flat, kind="stable")[: min(keep, int(beyond_chance.sum()))]
    term, column = np.unravel_index(np.sort(best), scores.shape)
    return np.column_stack([products[term], column])
