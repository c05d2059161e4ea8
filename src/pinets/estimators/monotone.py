r"""Prove that a polynomial rises or falls with a column over the whole range of the data, and fit it so.

The derivative of a polynomial by a column is a polynomial too. :func:`pinets.algebra.verify` proves that it is positive
all over a box, or finds a point where it is not. A fit that fails gets a harder penalty on the products of the column,
until what is left of them is proven.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from scipy import special

from pinets.algebra import trace, verify
from pinets.estimators.exact import TermFit
from pinets.estimators.factored import network_of_terms
from pinets.estimators.terms import Terms

__all__ = ["Box", "Monotonic", "constrain", "prove", "read_constraints"]

_SLACK = 1e-9  # relative; far more than the rounding errors of the derivative's coefficients
_MOST_COMBINATIONS = 64  # combinations of categories; beyond, indicators are taken for numbers from 0 to 1
_POINTS = 1000  # points of the box where the fit asks for the sign, before the proof
_ENOUGH_SLOPE = 2e-3  # slope asked for at these points, in standardised units
_WEIGHT = 100.0  # penalty at a point with a smaller slope, beside a mean loss
_SECONDS = 1.0  # computing time for each proof during a fit
_HARDER = (0.0, 1e-2, 0.1, 1.0, 10.0, 1e6)  # penalties on products of a column, tried in turn; the last leaves none


@dataclass(frozen=True)
class Monotonic:
    """The outcome of a proof about the slope of a polynomial along a column.

    Attributes:
        status: ``proven``: it has the sign asked for all over the range of the data. ``refuted``: not at ``point``.
            ``open``: neither was found in time.
        slope: Where proven, at least this; where refuted, that at ``point``: times the sign asked for, for one unit of
            the column.
        point: A row of the encoded columns, in their own units; None unless refuted.
        seconds: Computing time.
    """

    status: Literal["proven", "refuted", "open"]
    slope: float
    point: np.ndarray | None
    seconds: float


@dataclass(frozen=True)
class Box:
    """The range of the data: the ends of every standardised column, and which columns are indicators of one another."""

    low: np.ndarray
    high: np.ndarray
    indicators: np.ndarray
    groups: np.ndarray

    def parts(self, used: set[int]) -> tuple[np.ndarray, np.ndarray]:
        """The box for every combination of the categories of columns in use; the whole if these are too many."""
        own = [column for column in sorted(used) if self.indicators[column]]
        groups = [list(group) for _, group in itertools.groupby(own, key=lambda column: int(self.groups[column]))]
        low, high = [self.low], [self.high]
        if np.prod([1.0 + len(group) for group in groups]) > _MOST_COMBINATIONS:
            return np.array(low), np.array(high)
        for group in groups:
            shapes = [(a, b, level) for a, b in zip(low, high, strict=True) for level in (None, *group)]
            low, high = [], []
            for a, b, level in shapes:
                fixed = np.where(np.isin(np.arange(len(a)), group), self.low, a)
                if level is not None:
                    fixed[level] = self.high[level]
                low.append(fixed)
                high.append(np.where(np.isin(np.arange(len(a)), group), fixed, b))
        return np.array(low), np.array(high)

    def draw(self, count: int) -> np.ndarray:
        """Points of the box, half of their numbers at its ends, and one category of each column of categories."""
        random = np.random.RandomState(0)
        share = np.clip(random.uniform(-0.5, 1.5, size=(count, len(self.low))), 0, 1)
        for group in np.unique(self.groups[self.indicators]):
            own = np.flatnonzero(self.indicators & (self.groups == group))
            share[:, own] = np.eye(len(own) + 1)[random.randint(len(own) + 1, size=count)][:, :-1]
        return self.low + share * (self.high - self.low)


def read_constraints(wanted: Any, names: Sequence[str], numbers: Sequence[bool]) -> dict[int, int]:
    """The signs of the constrained columns, by number, from what scikit-learn calls ``monotonic_cst``.

    Args:
        wanted: A mapping from names to 1 (rises), -1 (falls) or 0, or one of these for each column.
        names: The names of the columns.
        numbers: Which of them hold numbers.
    """
    if isinstance(wanted, Mapping):
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise ValueError(f"monotonic_cst names the column {unknown[0]!r}, which X does not have")
        signs = [wanted.get(name, 0) for name in names]
    else:
        signs = np.asarray(wanted).ravel().tolist()
    if len(signs) != len(names):
        raise ValueError(f"monotonic_cst must have one entry for each of {len(names)} columns, got {len(signs)}")
    for sign, name, number in zip(signs, names, numbers, strict=True):
        if sign not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must hold 1, -1 or 0, got {sign!r} for {name!r}")
        if sign and not number:
            raise ValueError(f"monotonic_cst must be 0 for columns of categories, got {sign!r} for {name!r}")
    return {number: int(sign) for number, sign in enumerate(signs) if sign}


def prove(
    products: Sequence[tuple[int, ...]], coefficients: np.ndarray, column: int, sign: int, box: Box, seconds: float
) -> Monotonic:
    """Decide whether a sum of products of standardised columns rises (or, for sign -1, falls) with one of them.

    The proof holds for the polynomial with exactly these coefficients: what is proven is a slope a little above zero.
    """
    slopes: dict[tuple[int, ...], float] = {}
    for product, coefficient in zip(products, coefficients.tolist(), strict=True):
        if column in product and coefficient != 0:
            rest = list(product)
            rest.remove(column)
            slopes[tuple(rest)] = sign * product.count(column) * coefficient
    if not slopes:  # the polynomial does not depend on the column
        return Monotonic("proven", 0.0, None, 0.0)
    constant = slopes.pop((), 0.0)
    if not slopes:
        middle = (box.low + box.high) / 2
        return Monotonic("proven", constant, None, 0.0) if constant > 0 else Monotonic("refuted", constant, middle, 0.0)
    terms = Terms.of(list(slopes))
    found = np.array([slopes[product] for product in terms])
    farthest = np.maximum(np.abs(box.low), np.abs(box.high))
    slack = _SLACK * (abs(constant) + float(terms.values(farthest[None])[0] @ np.abs(found)))
    points = box.draw(_POINTS)
    sampled = constant + terms.values(points) @ found
    if sampled.min() < -slack:
        return Monotonic("refuted", float(sampled.min()), points[sampled.argmin()], 0.0)
    order = max(map(len, slopes))
    against_zero = np.column_stack([found, np.zeros(len(found))])
    fit = TermFit(terms, against_zero, np.array([constant - slack, 0.0]), order, 0.0, 0.0)
    low, high = box.parts(set(itertools.chain(*slopes)))
    network = trace(network_of_terms(fit, len(box.low), torch.float64), torch.from_numpy(low[:1]))
    spent, least = 0.0, np.inf
    for start, end in zip(torch.from_numpy(low), torch.from_numpy(high), strict=True):
        verdict = verify(network, start[None], end[None], [0], seconds=max(0.01, seconds - spent))[0]
        spent += verdict.seconds
        least = min(least, verdict.margin)
        if verdict.status == "proven":
            continue
        if verdict.counterexample is not None:
            point = verdict.counterexample.numpy()
            slope = constant + float(terms.values(point[None])[0] @ found)
            inside = np.isin(point, (box.low, box.high)) | ~box.indicators
            if slope < -slack and inside.all():
                return Monotonic("refuted", slope, point, spent)
        return Monotonic("open", verdict.margin, None, spent)
    return Monotonic("proven", least + slack, None, spent)


def constrain(
    fit: TermFit,
    columns: np.ndarray,
    share: np.ndarray,
    signs: Mapping[int, int],
    box: Box,
    *,
    classify: bool,
    per_degree: float,
    dtype: Any,
) -> tuple[TermFit, dict[int, float]]:
    """The polynomial nearest to a fit that is proven to rise or fall with some columns.

    Args:
        fit: With one output.
        columns: The standardised data that it was fitted to.
        share: The weights of the rows.
        signs: 1 or -1 for constrained columns, by number.
        box: The range of the data.
        classify: Whether the loss is the log loss.
        per_degree: How the terms of each further degree were scaled before the penalty.
        dtype: What the coefficients are rounded to before they are proven.

    Returns:
        The polynomial, and for every constrained column the further penalty on its products that the proof took.
    """
    products = list(fit.terms)
    values = fit.terms.values(columns)
    curvature = 1.0
    if classify:
        likely = special.expit(values @ fit.coefficients[:, 0] + fit.constant)
        curvature = max(float(share @ (likely * (1 - likely))), 1e-3)
    mean = share @ values
    centred = (values - mean) * np.sqrt(share)[:, None]
    scale = np.sqrt((centred**2).sum(axis=0))
    scale[scale == 0] = 1.0
    centred /= scale
    decay = (fit.strength + 1e-9) * per_degree ** (2 - 2.0 * fit.terms.degrees)
    loss = curvature * centred.T @ centred + np.diag(decay)
    before = fit.coefficients[:, 0] * scale
    points = box.draw(_POINTS)
    slopes = np.vstack([sign * _slopes(products, column, points) for column, sign in signs.items()]) / scale
    products_of = {
        column: np.array([column in product and len(product) > 1 for product in products]) for column in signs
    }
    tries = dict.fromkeys(signs, 0)
    while max(tries.values()) < len(_HARDER):
        penalty = sum(_HARDER[tries[column]] * products_of[column] for column in signs)
        plain = _with_signs(loss + np.diag(penalty), loss @ before, slopes) / scale
        for column in signs:
            if _HARDER[tries[column]] == _HARDER[-1]:
                plain[products_of[column]] = 0.0
        plain = plain.astype(dtype).astype(np.float64)
        failed = [
            column
            for column, sign in signs.items()
            if prove(products, plain, column, sign, box, _SECONDS).status != "proven"
        ]
        if not failed:
            constant = fit.constant + mean @ (fit.coefficients[:, 0] - plain)
            taken = {column: _HARDER[count] for column, count in tries.items()}
            return replace(fit, coefficients=plain[:, None], constant=constant), taken
        for column in failed:
            tries[column] += 1
    raise ValueError(f"monotonic_cst could not be proven for the column {failed[0]} of the polynomial")


def _with_signs(quadratic: np.ndarray, linear: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The minimum of a quadratic function, with a penalty where a slope is too small: Newton's method."""

    def loss(point: np.ndarray) -> float:
        lacking = np.maximum(0.0, _ENOUGH_SLOPE - slopes @ point)
        return float(point @ quadratic @ point / 2 - linear @ point + _WEIGHT / 2 * lacking @ lacking)

    found = np.linalg.solve(quadratic, linear)
    for _ in range(50):
        some = slopes[slopes @ found < _ENOUGH_SLOPE]
        target = np.linalg.solve(
            quadratic + _WEIGHT * some.T @ some, linear + _WEIGHT * _ENOUGH_SLOPE * some.sum(axis=0)
        )
        # whole steps may go round in circles: other slopes are too small where a step ends
        nearer = min((found + 0.5**halvings * (target - found) for halvings in range(20)), key=loss)
        if not loss(nearer) < loss(found):
            break
        found = nearer
    return found


def _slopes(products: Sequence[tuple[int, ...]], column: int, points: np.ndarray) -> np.ndarray:
    """The derivative of every product by a column, at some points."""
    out = np.zeros((len(points), len(products)))
    for position, product in enumerate(products):
        count = product.count(column)
        if count:
            rest = [other for other in product if other != column] + [column] * (count - 1)
            out[:, position] = count * points[:, rest].prod(axis=1)
    return out
