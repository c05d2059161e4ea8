"""Fewer terms: forward selection, backward elimination, and how many terms a score needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pinets.estimators.exact import CELLS, TermFit
from pinets.estimators.solve import Coordinates, constant_for, cross_entropy, logistic, ridge
from pinets.estimators.terms import Terms, extensions, screen

__all__ = ["PathPoint", "choose_size", "selection_path", "simplified"]

_FOLDS = 3
_WEAKEST = 1e-9  # penalty of the refit, only against rounding errors
_LOGISTIC = 1e-5


@dataclass(frozen=True)
class PathPoint:
    """The score of polynomials with this many terms, on rows that neither chose nor fitted them."""

    terms: int
    score: float
    deviation: float  # of the mean over the folds


def candidate_terms(columns: np.ndarray, centred: np.ndarray, allowed: np.ndarray, order: int) -> Terms:
    """All products up to an order, or as many as fit into memory, of each degree those that correlate most."""
    share = np.full(len(columns), 1 / len(columns))
    used = np.flatnonzero(columns.std(axis=0) > 0)
    complete = [used[:, None]]
    room = int(CELLS / len(columns))
    for _ in range(2, order + 1):
        new = extensions(complete[-1], allowed)
        new[:, columns.std(axis=0) == 0] = False
        if new.sum() > room // 2:
            complete.append(screen(columns, complete[-1], new, centred, share, room // 2))
        else:
            term, column = np.nonzero(new)
            complete.append(np.column_stack([complete[-1][term], column]))
    return Terms(tuple(products for products in complete if len(products)))


def selection_path(basis: np.ndarray, centred: np.ndarray, most: int) -> list[list[int]]:
    """The terms to keep, for 1, 2, ... terms, as positions in the basis.

    Forward: the term that explains most of the residual beyond those chosen, one at a time. Backward: from all chosen,
    the term is left out whose loss costs least; it repairs early choices that later ones made unnecessary.
    """
    rows = len(basis)
    values = basis - basis.mean(axis=0)
    norms = (values**2).sum(axis=0)
    usable = norms > 1e-12 * rows * np.maximum(1.0, (basis**2).mean(axis=0))
    left, residual, chosen = norms.copy(), centred.copy(), []
    total = (residual**2).sum()
    directions: list[np.ndarray] = []
    for _ in range(min(most, rows // 2, int(usable.sum()))):
        gain = ((values.T @ residual) ** 2).sum(axis=1)
        gain = np.where(usable & (left > 1e-8 * norms), gain / np.maximum(left, 1e-300), -1.0)
        best = int(np.argmax(gain))
        if gain[best] <= 1e-18 * total:
            break
        direction = values[:, best].copy()
        for known in directions:
            direction -= known * (known @ direction)
        direction /= np.linalg.norm(direction)
        directions.append(direction)
        left = left - (values.T @ direction) ** 2
        residual = residual - np.outer(direction, direction @ residual)
        usable[best] = False
        chosen.append(best)
    path = [list(chosen)] if chosen else []
    while len(chosen) > 1:
        some = values[:, chosen] / np.sqrt(norms[chosen])
        inverse = np.linalg.pinv(some.T @ some, hermitian=True)
        coefficients = inverse @ (some.T @ centred)
        cost = (coefficients**2).sum(axis=1) / np.maximum(np.diag(inverse), 1e-300)
        chosen = [term for position, term in enumerate(chosen) if position != int(np.argmin(cost))]
        path.append(list(chosen))
    return path[::-1]


def simplified(terms: Terms, basis: np.ndarray, targets: np.ndarray, chosen: list[int], *, classify: bool) -> TermFit:
    """Fit the chosen terms without a penalty."""
    share = np.full(len(basis), 1 / len(basis))
    products = list(terms)
    some = Terms.of([products[position] for position in chosen])
    position_of = {product: position for position, product in enumerate(products)}
    values = basis[:, [position_of[product] for product in some]]
    mean, scale = values.mean(axis=0), values.std(axis=0)
    standard = (values - mean) / scale
    coordinates = Coordinates.of_basis(
        standard, standard.T @ standard / len(basis), np.ones(len(mean)), share, 1 / len(basis)
    )
    if classify:
        point = logistic(coordinates.values, coordinates.spectrum, targets, share, _LOGISTIC)
        constant, coefficients, strength = point[0], coordinates.back @ point[1:], _LOGISTIC
    else:
        constant, strength = targets.mean(axis=0), _WEAKEST
        coefficients = coordinates.back @ ridge(coordinates, targets - constant, strength).coefficients
    plain = coefficients / scale[:, None]
    return TermFit(some, plain, constant - mean @ plain, max(map(len, some)), strength, float("nan"))


def score_path(
    columns: np.ndarray, targets: np.ndarray, allowed: np.ndarray, *, order: int, most: int, classify: bool
) -> list[PathPoint]:
    """The cross-validated score of 1, 2, ... terms: R², or for classes the share of the log loss explained."""
    if len(columns) < 2 * _FOLDS:
        raise ValueError(
            f"simplify scores {_FOLDS} folds of at least 2 rows and needs {2 * _FOLDS}, got {len(columns)}"
        )
    rows = np.random.RandomState(0).permutation(len(columns))
    scores: list[list[float]] = []
    for held_out in np.array_split(rows, _FOLDS):
        kept = np.setdiff1d(rows, held_out)
        centred = targets[kept] - targets[kept].mean(axis=0)
        terms = candidate_terms(columns[kept], centred, allowed, order)
        basis = terms.values(columns[kept])
        path = selection_path(basis, centred, most)
        if not path:
            raise ValueError("simplify needs columns that vary and a target that varies with them: no term explains it")
        of_fold = []
        for chosen in path:
            fit = simplified(terms, basis, targets[kept], chosen, classify=classify)
            outputs = fit.terms.values(columns[held_out]) @ fit.coefficients + fit.constant
            of_fold.append(_score(outputs, targets[held_out], targets[kept].mean(axis=0), classify=classify))
        scores.append(of_fold + [of_fold[-1]] * (most - len(of_fold)))  # a path ends early where nothing is left
    table = np.array(scores)
    deviation = table.std(axis=0) / np.sqrt(_FOLDS)
    return [PathPoint(size + 1, float(table[:, size].mean()), float(deviation[size])) for size in range(most)]


def _score(outputs: np.ndarray, targets: np.ndarray, mean: np.ndarray, *, classify: bool) -> float:
    if classify:
        nothing = np.tile(constant_for(np.clip(mean, 1e-6, 1 - 1e-6), True), (len(targets), 1))
        return 1 - float(cross_entropy(outputs, targets)[0].mean() / cross_entropy(nothing, targets)[0].mean())
    residual, total = ((targets - outputs) ** 2).sum(axis=0), ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    return float((1 - residual / np.maximum(total, 1e-300)).mean())


def choose_size(path: list[PathPoint], reference: float, tolerance: float) -> int:
    """The fewest terms whose score is within the tolerance of the reference; the best with a warning if none is."""
    for point in path:
        if point.score >= reference - tolerance:
            return point.terms
    best = max(path, key=lambda point: point.score)
    warnings.warn(
        f"no polynomial of up to {len(path)} terms scores {reference - tolerance:.4f}: the best, of {best.terms}, "
        f"scores {best.score:.4f}; raise max_terms or tolerance",
        stacklevel=3,
    )
    return best.terms
