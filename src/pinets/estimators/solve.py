r"""Ridge and logistic regression on a basis, with the strength of the penalty chosen by leave-one-out errors.

Both work in principal coordinates: with :math:`\Phi` the centred basis (rows weighted by their share),
:math:`\Phi^T \Phi = V \Lambda V^T` and :math:`W = \Phi V`, a penalised fit for any strength costs one matrix-vector
product. Where there are more terms than rows, the same comes from :math:`\Phi \Phi^T`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special

__all__ = [
    "Coordinates",
    "Logistic",
    "Ridge",
    "choose_logistic",
    "constant_for",
    "logistic",
    "ridge",
    "rows_to_choose_by",
]

STRENGTHS = 10.0 ** np.arange(-9, 2.1, 0.5)  # penalties to choose from, for terms of variance one and a mean loss
LOGISTIC_STRENGTHS = 10.0 ** np.arange(0.0, -5.1, -1.0)  # from strong to weak, each starting from the one before
ROWS_TO_CHOOSE_BY = 4000  # most rows for leave-one-out errors
_STEPS = 500


def rows_to_choose_by(count: int) -> np.ndarray:
    """Some of the rows, always the same."""
    return np.sort(np.random.RandomState(0).permutation(count)[:ROWS_TO_CHOOSE_BY])


@dataclass(frozen=True)
class Coordinates:
    """A centred basis in principal coordinates, for the rows whose errors are looked at."""

    values: np.ndarray  # W, of shape (rows, directions); rows are not weighted
    spectrum: np.ndarray  # the variance along every direction, all positive
    back: np.ndarray  # from coefficients of the directions to those of the basis, of shape (terms, directions)
    share: np.ndarray  # the weights of these rows; those of all rows sum to one
    unit: float  # the weight of one sample: a row that was given several times has several

    @classmethod
    def of_basis(
        cls, basis: np.ndarray, covariance: np.ndarray, worth: np.ndarray, share: np.ndarray, unit: float
    ) -> Coordinates:
        """From some rows of a basis, the covariance of its terms over all rows, and a factor for each term."""
        spectrum, vectors = _positive(covariance * worth * worth[:, None], len(basis))
        back = worth[:, None] * vectors
        return cls(basis @ back, spectrum, back, share, unit)

    @classmethod
    def of_kernel(cls, kernel: np.ndarray, share: np.ndarray, unit: float) -> Coordinates:
        """From the products of every two rows of a centred basis; ``back`` then gives coefficients of rows."""
        root = np.sqrt(share)
        spectrum, vectors = _positive(root[:, None] * kernel * root, len(share))
        length = np.sqrt(spectrum)
        return cls(vectors * length / root[:, None], spectrum, root[:, None] * vectors / length, share, unit)


def _positive(symmetric: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues that are above rounding, and their vectors."""
    spectrum, vectors = np.linalg.eigh(symmetric)
    above = spectrum > max(size, len(symmetric)) * np.finfo(float).eps * max(spectrum[-1], 1e-300)
    return spectrum[above], vectors[:, above]


@dataclass(frozen=True)
class Ridge:
    """A ridge regression: coefficients of the directions, the strength chosen, and the error of rows left out."""

    coefficients: np.ndarray
    strength: float
    error: float  # mean squared error when every row is predicted from the others


def ridge(
    coordinates: Coordinates, targets: np.ndarray, strength: float | None = None, moments: np.ndarray | None = None
) -> Ridge:
    r"""Ridge regression of centred targets, with the strength of the least leave-one-out error unless it is given.

    The error of leaving a sample out is its residual divided by :math:`1 - h_i`, with :math:`h_i` its leverage: exact,
    and no fit is repeated. Of a row that was given several times, one is left out.

    Args:
        coordinates: The basis.
        targets: Those of the coordinates' rows.
        strength: The penalty.
        moments: The mean products of directions and targets, of shape (directions, outputs), where there are more rows
            than those of the coordinates.
    """
    W, share = coordinates.values, coordinates.share
    if moments is None:
        moments = W.T @ (share[:, None] * targets)
    strengths = STRENGTHS if strength is None else np.array([strength])
    shrinkage = 1 / (coordinates.spectrum[:, None] + strengths)
    leverage = np.minimum(share, coordinates.unit)[:, None] * (1 + (W**2) @ shrinkage)
    kept = np.clip(1 - leverage, 1e-10, None)
    errors = np.zeros(len(strengths))
    for moment, target in zip(moments.T, targets.T, strict=True):
        residual = target[:, None] - W @ (moment[:, None] * shrinkage)
        errors += share @ (residual / kept) ** 2 / share.sum()
    best = int(np.argmin(errors))
    return Ridge(moments * shrinkage[:, best : best + 1], float(strengths[best]), float(errors[best]))


def constant_for(mean: np.ndarray, classify: bool) -> np.ndarray:
    """The best constant prediction: the mean, or the log-odds of the classes."""
    if not classify:
        return mean
    return np.log(mean / (1 - mean)) if len(mean) == 1 else np.log(mean)


@dataclass(frozen=True)
class Logistic:
    """A logistic regression: intercepts above the coefficients of the directions, the strength, and the log loss."""

    point: np.ndarray
    strength: float
    error: float  # mean log loss when every row is predicted from the others, but for one Newton step


def choose_logistic(coordinates: Coordinates, targets: np.ndarray, strength: float | None = None) -> Logistic:
    """Logistic regression with the strength of the least leave-one-out log loss unless it is given.

    Strengths fall from strong to weak, and the search ends when the loss has risen.
    """
    found: list[Logistic] = []
    share = coordinates.share / coordinates.share.sum()
    start = None
    for candidate in LOGISTIC_STRENGTHS if strength is None else [strength]:
        start = logistic(coordinates.values, coordinates.spectrum, targets, share, candidate, start, 1e-4)
        odds = _left_out(coordinates, start, targets, candidate)
        found.append(Logistic(start, float(candidate), float(share @ cross_entropy(odds, targets)[0])))
        if len(found) > 1 and found[-1].error > found[-2].error:
            break
    return min(found, key=lambda fit: fit.error)


def _left_out(coordinates: Coordinates, point: np.ndarray, targets: np.ndarray, strength: float) -> np.ndarray:
    r"""The outputs for every row if one sample of it had been left out, to the first step of Newton's method.

    With :math:`h_i = w_i^T H^{-1} w_i` for the second derivative :math:`H` of the loss, leaving out a sample of weight
    :math:`s`, whose loss has the derivatives :math:`g` and :math:`g'`, adds :math:`s g h_i / (1 - s g' h_i)`.
    Outputs of several classes are taken one at a time, which makes the loss somewhat too large.
    """
    W = np.column_stack([np.ones(len(targets)), coordinates.values])
    share = coordinates.share / coordinates.share.sum()
    sample = np.minimum(share, coordinates.unit / coordinates.share.sum())
    penalty = np.full(W.shape[1], strength)
    penalty[0] = 1e-12
    odds = W @ point
    error = cross_entropy(odds, targets)[1]
    left = np.empty_like(odds)
    for output in range(odds.shape[1]):
        likely = error[:, output] + targets[:, output]
        curvature = likely * (1 - likely)
        rooted = W * np.sqrt(share * curvature)[:, None]
        root = np.linalg.cholesky(rooted.T @ rooted + np.diag(penalty + 1e-12))
        influence = (linalg.solve_triangular(root, W.T, lower=True) ** 2).sum(axis=0)
        kept = np.clip(1 - sample * curvature * influence, 1e-3, None)
        left[:, output] = odds[:, output] + sample * error[:, output] * influence / kept
    return left


def logistic(
    W: np.ndarray,
    spectrum: np.ndarray,
    targets: np.ndarray,
    share: np.ndarray,
    strength: float,
    start: np.ndarray | None = None,
    tolerance: float = 1e-6,
) -> np.ndarray:
    r"""Logistic regression :math:`\sum_i s_i \ell_i + \frac{\lambda}{2} |c|^2` by L-BFGS; the intercept is free.

    Args:
        W: The rows in principal coordinates.
        spectrum: The variance along every direction.
        targets: One column of zeros and ones for two classes, else one for each class.
        share: The weights of the rows, which sum to one.
        strength: The penalty.
        start: Where to start from, in the shape of what is returned.
        tolerance: The search ends where no part of the gradient is larger, for directions scaled alike.

    Returns:
        The intercepts and below them the coefficients, of shape (1 + directions, outputs).
    """
    outputs = targets.shape[1]
    # a unit step changes the loss alike along every direction: its curvature is at most a quarter of the variance
    scale = np.concatenate([[2.0], 1 / np.sqrt(spectrum / 4 + strength)])[:, None]
    penalty = strength * scale[1:] ** 2

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = flat.reshape(-1, outputs)
        odds = W @ (scale[1:] * point[1:]).astype(W.dtype) + scale[0] * point[0]
        loss, error = cross_entropy(odds, targets)
        error *= share[:, None]
        gradient = np.empty_like(point)
        gradient[0], gradient[1:] = error.sum(axis=0), W.T @ error.astype(W.dtype)
        gradient *= scale
        gradient[1:] += penalty * point[1:]
        return float(share @ loss + (penalty * point[1:] ** 2).sum() / 2), gradient.ravel()

    first = np.zeros((len(scale), outputs)) if start is None else start / scale
    found = optimize.minimize(
        loss_and_gradient,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "gtol": tolerance, "ftol": 1e-6 * tolerance, "maxcor": 20},
    )
    return found.x.reshape(-1, outputs) * scale


def cross_entropy(odds: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss of every row, and its derivative by the outputs."""
    if odds.shape[1] == 1:
        return np.logaddexp(0, odds[:, 0]) - targets[:, 0] * odds[:, 0], special.expit(odds) - targets
    log_likely = special.log_softmax(odds, axis=1)
    return -(log_likely * targets).sum(axis=1), np.exp(log_likely) - targets
