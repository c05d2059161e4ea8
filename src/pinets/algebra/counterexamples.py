"""Search for misclassified inputs in a box, by projected gradient descent on the margin."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pinets.algebra.domains.interval import Interval

__all__ = ["find_counterexample", "least_margin"]

Evaluate = Callable[[Tensor], Tensor]  # outputs for a batch of inputs, in the network's own precision

_STARTS, _STEPS = 3, 40


def find_counterexample(
    evaluate: Evaluate,
    box: Interval,
    label: int,
    dtype: torch.dtype,
    *,
    start: Tensor | None = None,
    generator: torch.Generator,
) -> Tensor | None:
    """An input of a box whose label does not have the largest output, as the network itself computes it.

    Every other class is aimed at, from the centre of the box and from random points; or from ``start`` alone. Box and
    start have a batch of one; ``dtype`` is the network's own precision.
    """
    low, high = _inside(box, dtype)
    if (low > high).any():  # the box holds no input of this precision
        return None
    classes = evaluate(low).shape[1]
    others = torch.tensor([other for other in range(classes) if other != label])
    if not len(others):
        return None
    middle = low + (high - low) / 2
    if start is None:
        places = torch.rand(_STARTS - 1, *low.shape[1:], generator=generator, dtype=dtype)
        starts = torch.cat([middle, low + (high - low) * places])
    else:
        starts = start.to(dtype)
    points = starts.repeat_interleave(len(others), 0).clamp(low, high)
    targets = others.repeat(len(starts))
    for step in range(_STEPS + 1):
        points.requires_grad_()
        with torch.enable_grad():
            outputs = evaluate(points)
            gaps = outputs[:, label] - outputs.gather(1, targets[:, None])[:, 0]
            (slope,) = torch.autograd.grad(gaps.sum(), points, allow_unused=True)
        points = points.detach()
        worst = int((outputs[:, [label]] - outputs[:, others]).amin(1).argmin())
        found = points[worst : worst + 1]
        if least_margin(evaluate, found, label) <= 0:
            return found
        if slope is None:
            return None
        length = (high - low) * (1 - step / (_STEPS + 1))
        points = (points - length * slope.sign()).clamp(low, high)
    return None


def least_margin(evaluate: Evaluate, point: Tensor, label: int) -> float:
    """By how much the label's output exceeds every other one, for one input in a batch of its own."""
    with torch.no_grad():
        outputs = evaluate(point)[0].double()
    others = torch.cat([outputs[:label], outputs[label + 1 :]])
    gap = float((outputs[label] - others).min())
    return gap if gap == gap else -torch.inf  # NaN is no right answer


def _inside(box: Interval, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The least and the largest numbers of a precision that a box holds."""
    low, high = box.lower.to(dtype), box.upper.to(dtype)
    infinity = torch.full_like(low, torch.inf)
    low = torch.where(low.double() < box.lower, torch.nextafter(low, infinity), low)
    high = torch.where(high.double() > box.upper, torch.nextafter(high, -infinity), high)
    return low, high
