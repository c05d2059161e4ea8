"""True accepts at a rate of false accepts: exact, with ties, from all impostor scores or from the largest alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

__all__ = ["OperatingPoint", "allowed_false", "log_rates", "operating_points", "operating_points_from_tail"]

_SLACK = 1 + Fraction(1, 2**50)  # 1/3 as a float is slightly less than a third, but must allow one of three pairs


@dataclass(frozen=True)
class OperatingPoint:
    """The true accepts at a rate of false accepts.

    Attributes:
        far: The largest rate of false accepts that is allowed.
        tar: The share of genuine scores that are accepted.
        threshold: Scores above it are accepted.
        false_accepts: The number of impostors above it, at most ``allowed``.
        allowed: The rate times the number of impostors, rounded down. If it is 0, the rate is finer than the list of
            pairs, and ``tar`` is at no false accept at all.
    """

    far: float
    tar: float
    threshold: float
    false_accepts: int
    allowed: int


def allowed_false(far: float, impostors: int) -> int:
    """The number of impostors that may be accepted: ``far * impostors`` rounded down, without errors of floats.

    >>> allowed_false(0.29, 100), int(0.29 * 100)
    (29, 28)
    """
    if not 0 <= far <= 1:
        raise ValueError(f"a rate lies between 0 and 1, got {far}")
    return int(Fraction(str(far)) * impostors * _SLACK)


def operating_points(genuine: Tensor, impostor: Tensor, fars: Sequence[float]) -> list[OperatingPoint]:
    """The share of genuine scores accepted at each rate of false accepts, exactly.

    The threshold is the lowest at which the rate is not exceeded. Scores that are equal are accepted or rejected
    together, so ties never help.

    Args:
        genuine: Similarities of pairs of one person.
        impostor: Similarities of pairs of two people.
        fars: Rates of false accepts.

    Example:
        >>> points = operating_points(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([0.5, 0.4, 0.2, 0.1]), [0.25, 0.5])
        >>> [(point.tar, point.false_accepts) for point in points]
        [(0.6666666666666666, 1), (1.0, 2)]
    """
    impostor = _checked(impostor, "impostor")
    most = max((allowed_false(far, len(impostor)) for far in fars), default=0)
    tail = impostor.topk(min(most + 1, len(impostor))).values
    return operating_points_from_tail(genuine, tail, len(impostor), fars)


def operating_points_from_tail(
    genuine: Tensor, tail: Tensor, impostors: int, fars: Sequence[float]
) -> list[OperatingPoint]:
    """As :func:`operating_points`, from the largest impostor scores alone.

    Args:
        genuine: Similarities of pairs of one person.
        tail: The largest similarities of pairs of two people: for every rate one more than it allows.
        impostors: How many such pairs there are in all.
        fars: Rates of false accepts.
    """
    genuine = _checked(genuine, "genuine").sort().values
    tail = _checked(tail, "impostor").sort(descending=True).values
    rising = tail.flip(0)
    points = []
    for far in fars:
        allowed = allowed_false(far, impostors)
        if allowed >= impostors:
            points.append(OperatingPoint(far, 1.0, -math.inf, impostors, allowed))
            continue
        if allowed >= len(tail):
            raise ValueError(
                f"a rate of {far} allows {allowed} of {impostors} impostors, but only the {len(tail)} largest scores "
                "are given: one more than allowed is needed"
            )
        threshold = tail[allowed]
        accepted = len(genuine) - int(torch.searchsorted(genuine, threshold.to(genuine.dtype), right=True))
        above = len(tail) - int(torch.searchsorted(rising, threshold, right=True))
        points.append(OperatingPoint(far, accepted / len(genuine), float(threshold), above, allowed))
    return points


def log_rates(impostors: int, largest: float = 1.0, points: int = 120) -> list[float]:
    """Rates for a curve: evenly spaced on a logarithmic axis, from one false accept to the largest rate.

    >>> [round(rate, 6) for rate in log_rates(1000, points=4)]
    [0.001, 0.01, 0.1, 1.0]
    """
    if impostors < 1 or not 0 < largest <= 1:
        raise ValueError(f"there must be impostors and a rate in (0, 1], got {impostors} and {largest}")
    smallest = min(1 / impostors, largest)
    steps = points - 1
    return [smallest * (largest / smallest) ** (step / steps) for step in range(steps)] + [largest]


def _checked(scores: Tensor, kind: str) -> Tensor:
    if scores.ndim != 1:
        raise ValueError(f"{kind} scores must be a vector, got shape {tuple(scores.shape)}")
    if not len(scores):
        raise ValueError(f"there are no {kind} scores: rates need pairs of one person and pairs of two")
    if not scores.isfinite().all():
        raise ValueError(f"{kind} scores must be finite: {int((~scores.isfinite()).sum())} of {len(scores)} are not")
    return scores
