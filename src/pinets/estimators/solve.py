r"""Ridge and logistic regression on a basis, with the strength of the penalty chosen by cross-validation.

Both work in principal coordinates: with :math:`\Phi` the centred basis (rows weighted by their share),
:math:`\Phi^T \Phi = V \Lambda V^T` and :math:`W = \Phi V`, a penalised fit for any strength costs one matrix-vector
product. Where there are more terms than rows, the same comes from :math:`\Phi \Phi^T`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

__all__ = ["Coordinates", "Ridge", "Selected", "constant_for", "logistic", "ridge", "select"]

STRENGTHS = 10.0 ** np.arange(-9, 2.1, 0.5)  # of the penalty, for terms of variance one and a mean loss
LOGISTIC_STRENGTHS = 10.0 ** np.arange(0.0, -5.1, -1.0)  # from strong to weak, each starting from the one before
_STEPS = 500
_LARGE = 3_000_000  # numbers of a basis
_FOLDS, _ONE_FOLD_FROM = 4, 5000  # rows
_ROWS_TO_CHOOSE = 8000  # the penalty of a logistic regression from


@dataclass(frozen=True)
class Coordinates:
    """A centred basis in principal coordinates.

    Attributes:
        values: W, of shape (rows, directions); rows are not weighted.
        spectrum: The variance along every direction, all positive.
        back: Maps coefficients of the directions to those of the basis, of shape (terms, directions).
        share: The weights of the rows, which sum to one.
        unit: The weight of one sample: a row that was given several times has several.
    """

    values: np.ndarray
    spectrum: np.ndarray
    back: np.ndarray
    share: np.ndarray
    unit: float

    @classmethod
    def of_basis(
        cls, basis: np.ndarray, covariance: np.ndarray, worth: np.ndarray, share: np.ndarray, unit: float
    ) -> Coordinates:
        """From a basis with at most as many terms as rows, its covariance, and a factor for each term."""
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

    def of_rows(self, rows: np.ndarray) -> Coordinates:
        """The same directions on some of the rows."""
        total = self.share[rows].sum()
        return Coordinates(self.values[rows], self.spectrum, self.back, self.share[rows] / total, self.unit / total)


def _positive(symmetric: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues that are above rounding, and their vectors."""
    spectrum, vectors = np.linalg.eigh(symmetric)
    above = spectrum > max(size, len(symmetric)) * np.finfo(float).eps * max(spectrum[-1], 1e-300)
    return spectrum[above], vectors[:, above]


@dataclass(frozen=True)
class Ridge:
    """A ridge regression: coefficients of the directions, the strength chosen, and what is left unexplained."""

    coefficients: np.ndarray
    strength: float
    error: float  # mean squared error when every row is predicted from the others
    fitted: np.ndarray


def ridge(coordinates: Coordinates, targets: np.ndarray, strength: float | None = None) -> Ridge:
    r"""Ridge regression of centred targets, with the strength of the least leave-one-out error unless it is given.

    The error of leaving a sample out is its residual divided by :math:`1 - h_i`, with :math:`h_i` its leverage: exact,
    and no fit is repeated. Of a row that was given several times, one is left out.
    """
    W, spectrum, share = coordinates.values, coordinates.spectrum, coordinates.share
    moments = W.T @ (share[:, None] * targets)
    strengths = STRENGTHS if strength is None else np.array([strength])
    shrinkage = 1 / (spectrum[:, None] + strengths)
    leverage = np.minimum(share, coordinates.unit)[:, None] * (1 + (W**2) @ shrinkage)
    kept = np.clip(1 - leverage, 1e-10, None)
    errors = np.zeros(len(strengths))
    for moment, target in zip(moments.T, targets.T, strict=True):
        residual = target[:, None] - W @ (moment[:, None] * shrinkage)
        errors += share @ (residual / kept) ** 2
    best = int(np.argmin(errors))
    coefficients = moments * shrinkage[:, best : best + 1]
    return Ridge(coefficients, float(strengths[best]), float(errors[best]), W @ coefficients)


def constant_for(mean: np.ndarray, classify: bool) -> np.ndarray:
    """What predicts best without looking at any column: the mean, or the log-odds of the classes."""
    if not classify:
        return mean
    return np.log(mean / (1 - mean)) if len(mean) == 1 else np.log(mean)


@dataclass(frozen=True)
class Selected:
    """The best of several coordinates: its position, and the fit in its directions."""

    position: int
    coefficients: np.ndarray
    constant: np.ndarray
    strength: float
    error: float


def select(candidates: list[Coordinates], targets: np.ndarray, strength: float | None, *, classify: bool) -> Selected:
    """The coordinates, and the penalty unless it is given, that predict best what they were not fitted to."""
    share = candidates[0].share
    if classify:
        position, error, chosen = _choose_logistic(candidates, targets, strength)
        best_of_all, large = candidates[position], candidates[position].values.size > _LARGE
        if large:  # memory is what a step waits for, and single precision is far below the error of the fit
            single = best_of_all.values.astype(np.float32)
            best_of_all = replace(best_of_all, values=single)
        point = logistic(best_of_all, targets, chosen, tolerance=3e-5 if large else 1e-6)
        return Selected(position, point[1:], point[0], chosen, error)
    mean = share @ targets
    fits = [ridge(coordinates, targets - mean, strength) for coordinates in candidates]
    position = min(range(len(fits)), key=lambda position: fits[position].error)
    best = fits[position]
    return Selected(position, best.coefficients, mean, best.strength, best.error)


def _choose_logistic(
    candidates: list[Coordinates], targets: np.ndarray, strength: float | None
) -> tuple[int, float, float]:
    """The candidate and the strength with the least log loss of held out rows, and that loss.

    From at most ``_ROWS_TO_CHOOSE`` rows: the best strength falls with the number of rows, so it is scaled in the end.
    """
    if len(candidates) == 1 and strength is not None:
        return 0, float("nan"), strength
    everything = len(targets)
    if everything > _ROWS_TO_CHOOSE:
        some = np.random.RandomState(0).permutation(everything)[:_ROWS_TO_CHOOSE]
        candidates, targets = [each.of_rows(some) for each in candidates], targets[some]
    folds = _folds(targets, candidates[0].share / candidates[0].unit)
    compared = [_cross_validate(coordinates, targets, folds, strength) for coordinates in candidates]
    best = min(range(len(candidates)), key=lambda position: compared[position][0])
    error, chosen = compared[best]
    return best, error, chosen if strength is not None else chosen * len(targets) / everything


def _folds(targets: np.ndarray, samples: np.ndarray) -> list[np.ndarray]:
    """How much of every row to hold out, a fair part of every class: a fifth once where there are many, else in turn.

    Rows that stand for several samples are divided among the folds, as their samples would be.
    """
    labels = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
    shuffled = np.random.RandomState(0).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    parts = 5 if len(labels) >= _ONE_FOLD_FROM else _FOLDS
    place = np.empty(len(labels), dtype=int)
    place[by_class] = np.arange(len(labels)) % parts
    several = samples >= parts
    folds = [np.where(several, 1 / parts, place == part) for part in range(parts)]
    folds = [fold for fold in folds if fold.any() and (fold < 1).any()]
    return folds[:1] if len(labels) >= _ONE_FOLD_FROM else folds


def logistic(
    coordinates: Coordinates,
    targets: np.ndarray,
    strength: float,
    share: np.ndarray | None = None,
    start: np.ndarray | None = None,
    tolerance: float = 1e-6,
) -> np.ndarray:
    r"""Logistic regression :math:`\sum_i s_i \ell_i + \frac{\lambda}{2} |c|^2` by L-BFGS; the intercept is free.

    Args:
        coordinates: The basis.
        targets: One column of zeros and ones for two classes, else one for each class.
        strength: The penalty.
        share: The weights of the rows, if not those of the coordinates; rows of weight zero are left out.
        start: Where to start from, in the shape of what is returned.
        tolerance: The search ends where no part of the gradient is larger, for directions scaled alike.

    Returns:
        The intercepts and below them the coefficients, of shape (1 + directions, outputs).
    """
    W = coordinates.values
    if share is None:
        share = coordinates.share
    else:
        rows = share > 0
        W, targets, share = W[rows], targets[rows], share[rows] / share.sum()
    outputs = targets.shape[1]
    # a unit step changes the loss alike along every direction: its curvature is at most a quarter of the variance
    scale = np.concatenate([[2.0], 1 / np.sqrt(coordinates.spectrum / 4 + strength)])[:, None]
    penalty = strength * scale[1:] ** 2

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = flat.reshape(-1, outputs)
        odds = W @ (scale[1:] * point[1:]).astype(W.dtype) + scale[0] * point[0]
        loss, error = cross_entropy(odds, targets)
        error *= share[:, None]
        gradient = np.vstack([error.sum(axis=0), W.T @ error.astype(W.dtype)]) * scale
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
    shifted = odds - odds.max(axis=1, keepdims=True)
    likely = np.exp(shifted)
    total = likely.sum(axis=1, keepdims=True)
    return np.log(total[:, 0]) - (shifted * targets).sum(axis=1), likely / total - targets


def _cross_validate(
    coordinates: Coordinates, targets: np.ndarray, folds: list[np.ndarray], strength: float | None = None
) -> tuple[float, float]:
    """The mean loss on folds, each predicted from the other rows, and the strength for which it is least.

    Strengths fall from strong to weak, and the search ends when the loss has risen twice.
    """
    share = coordinates.share
    found: list[tuple[float, float]] = []
    starts: list[np.ndarray | None] = [None] * len(folds)
    for candidate in LOGISTIC_STRENGTHS if strength is None else [strength]:
        losses, weights = 0.0, 0.0
        for position, held_out in enumerate(folds):
            kept = share * (1 - held_out)
            point = starts[position] = logistic(coordinates, targets, candidate, kept, starts[position], 1e-4)
            rows = held_out > 0
            odds = coordinates.values[rows] @ point[1:] + point[0]
            losses += float((share * held_out)[rows] @ cross_entropy(odds, targets[rows])[0])
            weights += float(share @ held_out)
        found.append((losses / weights, float(candidate)))
        if len(found) > 2 and found[-1][0] > found[-2][0] > found[-3][0]:
            break
    return min(found)
