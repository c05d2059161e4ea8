"""Verification of pairs: accuracy with a threshold chosen on other folds, and true accepts at a rate of false ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.tasks.faces.embeddings import Matrix, read_rows
from pinets.tasks.faces.metrics.rates import OperatingPoint, operating_points

__all__ = [
    "GRID",
    "Accuracy",
    "PairVerification",
    "cross_validated_accuracy",
    "fold_numbers",
    "hardest_pairs",
    "pair_scores",
    "verify_pairs",
]

# The thresholds that published figures are chosen from: squared distances 0.00, 0.01, ..., 3.99 of embeddings of length
# one, which are cosines of 1 - distance / 2. From strict to lax.
GRID = 1 - torch.arange(400, dtype=torch.float64) / 200


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers in each fold, with the threshold chosen on the other folds.

    Attributes:
        folds: The accuracy of each fold.
        thresholds: The threshold of each fold; pairs that score above it count as one person.
        mean: The mean over the folds.
        deviation: The standard deviation of the folds (of the population, as published).
    """

    folds: tuple[float, ...]
    thresholds: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(torch.tensor(self.folds, dtype=torch.float64).mean())

    @property
    def deviation(self) -> float:
        return float(torch.tensor(self.folds, dtype=torch.float64).std(correction=0))


@dataclass(frozen=True)
class PairVerification:
    """The result for a list of pairs; ``points`` is empty if all pairs are of one kind, since then no rate exists."""

    accuracy: Accuracy
    points: tuple[OperatingPoint, ...]
    genuine: int
    impostors: int


def pair_scores(embeddings: Matrix, pairs: Tensor, block: int = 100_000) -> Tensor:
    """The cosine similarity of each pair of rows, computed in blocks.

    Args:
        embeddings: One row for each image or template.
        pairs: The two rows of each pair, int64 (P, 2).
        block: Pairs to compare at a time.

    Example:
        >>> pair_scores(torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0]]), torch.tensor([[0, 1], [0, 2]]))
        tensor([1.0000, 0.6000])
    """
    rows = read_rows(embeddings)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (P, 2), got {tuple(pairs.shape)}")
    if len(pairs) and (int(pairs.min()) < 0 or int(pairs.max()) >= len(rows)):
        raise ValueError(
            f"pairs name rows {int(pairs.min())} to {int(pairs.max())}, but there are {len(rows)} embeddings"
        )
    return torch.cat([(rows[part[:, 0]] * rows[part[:, 1]]).sum(dim=1) for part in pairs.split(block)])


def fold_numbers(same: Tensor, folds: int = 10) -> Tensor:
    """Divide pairs of one person, and pairs of two, each in their order, into folds of about equal size.

    For LFW's ``pairs.txt``, RFW's lists and the packs, which alternate 300 of one kind and 300 of the other (350 for
    CFP), these are the official folds. Lists in which all of one kind come first are divided evenly all the same.

    >>> fold_numbers(torch.tensor([True, True, False, False]), folds=2)
    tensor([0, 1, 0, 1])
    """
    if folds < 2 or len(same) < folds:
        raise ValueError(
            f"{len(same)} pairs cannot be divided into {folds} folds: there must be two or more, none empty"
        )
    numbers = torch.empty(len(same), dtype=torch.int64)
    for kind in (True, False):
        members = (same == kind).nonzero().squeeze(1)
        numbers[members] = torch.arange(len(members)) * folds // max(len(members), 1)
    return numbers


def cross_validated_accuracy(scores: Tensor, same: Tensor, fold: Tensor, thresholds: Tensor | None = GRID) -> Accuracy:
    """Accuracy by folds: the threshold of a fold is the one that is right most often on all others.

    Args:
        scores: Similarity of each pair.
        same: Whether it is of one person.
        fold: The number of its fold.
        thresholds: The candidates; of equally good ones the first is chosen. None for all middles between neighbouring
            scores; of equally good ones the middle one is chosen.

    Example:
        >>> scores, same = torch.tensor([0.9, 0.1, 0.8, 0.2]), torch.tensor([True, False, True, False])
        >>> cross_validated_accuracy(scores, same, torch.tensor([0, 0, 1, 1]), thresholds=None).mean
        1.0
    """
    if not (len(scores) == len(same) == len(fold)):
        raise ValueError(f"scores, same and fold must be equally long, got {len(scores)}, {len(same)} and {len(fold)}")
    if not scores.isfinite().all():
        raise ValueError(f"scores must be finite: {int((~scores.isfinite()).sum())} of {len(scores)} are not")
    scores = scores.double()
    accuracies, chosen = [], []
    for number in fold.unique().tolist():
        held = fold == number
        if held.all():
            raise ValueError("there must be two folds or more: a threshold is never chosen on what it is judged by")
        candidates = _between(scores[~held]) if thresholds is None else thresholds.double()
        right = _count_right(scores[~held], same[~held], candidates)
        best = (right == right.max()).nonzero().squeeze(1)
        threshold = float(candidates[best[0] if thresholds is not None else best[len(best) // 2]])
        chosen.append(threshold)
        accuracies.append(float(((scores[held] > threshold) == same[held]).double().mean()))
    return Accuracy(tuple(accuracies), tuple(chosen))


def verify_pairs(
    embeddings: Matrix,
    pairs: Tensor,
    same: Tensor,
    *,
    folds: int = 10,
    fars: Sequence[float] = (1e-3, 1e-2, 1e-1),
    thresholds: Tensor | None = GRID,
) -> PairVerification:
    """Verify pairs by the cosine similarity of their embeddings, which is LFW's protocol with outside data.

    Args:
        embeddings: One row for each image; add those of the mirror images before, for figures as published.
        pairs: The two rows of each pair, (P, 2).
        same: Whether it is of one person.
        folds: The number of folds, in the order of the pairs.
        fars: The rates of false accepts at which to count true ones, over all pairs.
        thresholds: As for :func:`cross_validated_accuracy`.
    """
    scores = pair_scores(embeddings, pairs)
    genuine, impostor = scores[same], scores[~same]
    both = len(genuine) > 0 and len(impostor) > 0
    return PairVerification(
        cross_validated_accuracy(scores, same, fold_numbers(same, folds), thresholds),
        tuple(operating_points(genuine, impostor, fars)) if both else (),
        len(genuine),
        len(impostor),
    )


def hardest_pairs(scores: Tensor, same: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The least similar pairs of one person and the most similar of two, by number, hardest first.

    >>> hardest_pairs(torch.tensor([0.1, 0.9, 0.8, 0.3]), torch.tensor([True, True, False, False]), count=1)
    (tensor([0]), tensor([2]))
    """
    genuine, impostor = same.nonzero().squeeze(1), (~same).nonzero().squeeze(1)
    first = genuine[scores[genuine].argsort(stable=True)[:count]]
    second = impostor[scores[impostor].argsort(descending=True, stable=True)[:count]]
    return first, second


def _between(scores: Tensor) -> Tensor:
    """The middles between neighbouring scores, and one below and one above all."""
    values = scores.unique()
    ends = values[:1] - 1, values[-1:] + 1
    return torch.cat([ends[0], (values[1:] + values[:-1]) / 2, ends[1]])


def _count_right(scores: Tensor, same: Tensor, thresholds: Tensor) -> Tensor:
    """The number of right answers at each threshold: pairs of one person above it, and of two not above it."""
    genuine, impostor = scores[same].sort().values, scores[~same].sort().values
    rejected = torch.searchsorted(genuine, thresholds, right=True)
    return len(genuine) - rejected + torch.searchsorted(impostor, thresholds, right=True)
