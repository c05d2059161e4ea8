"""The choice of a solver, and the preparation of a table for a fit without mini-batches."""

from __future__ import annotations

import math

import numpy as np

from pinets.estimators.exact import fit_terms, most_terms
from pinets.estimators.solve import rows_to_choose_by
from pinets.estimators.terms import allowed_products

__all__ = ["automatic_orders", "choose_solver", "clip_rare_values", "distinct"]

FEW_TERMS = 300  # a polynomial that small may have an order of 4 or 5 as well
MOST_ROWS = 100_000  # for the fit by terms; beyond, mini-batches
MOST_CELLS = 20_000_000  # numbers of a table that is made dense as a whole (160 MB)
FEW_ROWS = 1000  # for the fit by rows
_RARE = 0.01  # the share at each end of a column that clip="auto" may cut
_MOST_SAMPLES = 1e9  # largest sum of whole weights that counts as a number of samples
_ENOUGH = 200  # rows needed to decide on cutting
_GAIN = 0.005  # relative gain in error that makes cutting worthwhile


def choose_solver(wanted: str, order: int | str, rows: int, columns: int) -> str:
    """Choose the solver for a table of this size.

    ``"terms"`` where the products of two columns, complete or a choice of them, make a basis of a practical size;
    ``"rows"`` for few rows of many columns; ``"adam"`` for everything larger.
    """
    terms, cells = most_terms(rows), rows * columns
    if wanted == "terms" and (columns > terms or cells > 10 * MOST_CELLS):
        gigabytes = 8 * (rows * columns + columns**2) / 1e9
        raise ValueError(
            f"solver='terms' takes at most {terms:,} columns for {rows:,} rows, got {columns:,}, which would need "
            f"{gigabytes:.1f} GB for order 1 alone: use solver='auto'"
        )
    if wanted == "rows" and rows > 5 * FEW_ROWS:
        gigabytes = 5 * 8 * rows**2 / 1e9
        raise ValueError(
            f"solver='rows' takes at most {5 * FEW_ROWS:,} rows, got {rows:,}, which would need {gigabytes:.1f} GB: "
            f"use solver='auto'"
        )
    if wanted != "auto":
        return wanted
    highest = 2 if order == "auto" else min(int(order), 2)
    complete = math.comb(columns + highest, highest) - 1
    if rows <= FEW_ROWS and (complete > 10 * rows or columns > min(terms, rows)) and cells <= 10 * MOST_CELLS:
        return "rows"
    if rows <= MOST_ROWS and columns <= terms and cells <= MOST_CELLS:
        return "terms"
    return "adam"


def automatic_orders(columns: int) -> tuple[int, ...]:
    """The orders to choose from: 1 to 3, and up to 5 for few columns."""
    return (1, 2, 3, *(order for order in (4, 5) if math.comb(columns + order, order) <= FEW_TERMS))


def distinct(
    columns: np.ndarray, y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Every different row once, in an order of their own, with its share of the weight; and the share of one sample.

    Weights that are whole numbers count samples, so a sample given twice equals one of weight two, also in
    leave-one-out errors.
    """
    labels, codes = np.unique(y, axis=0 if y.ndim > 1 else None, return_inverse=True)
    joined = np.column_stack([columns.astype(np.float64) + 0.0, codes.ravel()])  # one zero, not 0.0 and -0.0
    as_bytes = np.ascontiguousarray(joined).view(np.dtype((np.void, joined.dtype.itemsize * joined.shape[1]))).ravel()
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights)
    in_order = np.lexsort(joined[first].T[::-1])  # by value, which units of the columns do not change
    first, total = first[in_order], total[in_order]
    whole = weights is not None and bool((weights == np.round(weights)).all()) and total.sum() < _MOST_SAMPLES
    samples = total.sum() if whole else len(columns)
    return columns[first], labels[codes.ravel()[first]], total / total.sum(), 1 / float(samples)


def clip_rare_values(
    columns: np.ndarray, targets: np.ndarray, share: np.ndarray, wanted: float | str, unit: float | None = None
) -> np.ndarray:
    """The columns with their ends cut to quantiles: given, or if that makes a sum of cubics predict better.

    A value far out weighs its cube in a polynomial of order three: one row in a thousand can decide the fit.

    Args:
        columns: The data.
        targets: Of shape (rows, outputs).
        share: The weights of the rows, which sum to one.
        wanted: The quantile to cut at either end, or ``"auto"``.
        unit: The weight of one sample; every row is one if left out.
    """
    samples = share * len(columns) if unit is None else share / unit
    if wanted != "auto":
        return _cut(columns, samples, float(wanted))
    if len(columns) < _ENOUGH:
        return columns
    cut = _cut(columns, samples, _RARE)
    if (cut == columns).all():
        return columns
    some = rows_to_choose_by(len(columns))
    share = share[some] / share[some].sum()
    before, after = (_additive_error(each[some], targets[some], share) for each in (columns, cut))
    gain = 1 - after / max(before, 1e-300)
    return cut if gain > _GAIN else columns


def _quantiles(column: np.ndarray, samples: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Those that numpy takes, between two samples, of a column whose rows stand for several samples each."""
    order = column.argsort()
    counts = samples[order].cumsum()
    position = wanted * (counts[-1] - 1)
    below, above = (
        column[order[np.searchsorted(counts, np.floor(position) + step).clip(max=len(column) - 1)]]
        for step in (0.5, 1.5)
    )
    return below + (position - np.floor(position)) * (above - below)


def _cut(columns: np.ndarray, samples: np.ndarray, quantile: float) -> np.ndarray:
    if quantile == 0:
        return columns
    ends = np.array([quantile, 1 - quantile])
    low, high = np.array([_quantiles(column, samples, ends) for column in columns.T]).reshape(-1, 2).T
    smallest, largest = columns.min(axis=0), columns.max(axis=0)
    indicators = ((columns == smallest) | (columns == largest)).all(axis=0)
    keep = indicators | (low == high)  # or a rare category would vanish
    return np.clip(columns, np.where(keep, smallest, low), np.where(keep, largest, high))


def _additive_error(columns: np.ndarray, targets: np.ndarray, share: np.ndarray) -> float:
    """The leave-one-out error of a sum of cubics, one for each column."""
    columns = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)  # squares must not overflow
    mean = share @ columns
    deviation = np.sqrt(share @ (columns - mean) ** 2)
    z = (columns - mean) / np.where(deviation > 0, deviation, np.inf)
    z = z[:, deviation > 0]
    alone = np.diag(np.diag(allowed_products(z, np.arange(z.shape[1]))))
    return fit_terms(z, targets, share, alone, orders=(3,)).error
