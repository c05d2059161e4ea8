"""Branch and bound: halve the box where the bounds come from, as often as allowed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from pinets.algebra.domains.interval import Interval

__all__ = ["refine"]

Enclose = Callable[[Interval], Interval]  # outputs over each of several boxes

_AXES = 16  # inputs along which halving a box is tried: the widest ones


def refine(enclose: Enclose, box: Interval, most: int) -> Interval:
    """The outputs over a box, from the bounds over at most so many parts of it.

    In each round, the parts that hold the least lower and the largest upper bound of some output are halved, along the
    input that makes their own bounds tightest. The box has a batch of one.
    """
    boxes, outputs = box, enclose(box)
    while len(boxes.lower) < most:
        low, high = outputs.lower.flatten(1), outputs.upper.flatten(1)
        chosen = torch.cat([low.argmin(0), high.argmax(0)]).unique()[: most - len(boxes.lower)]
        kept = torch.ones(len(boxes.lower), dtype=torch.bool)
        kept[chosen] = False
        parents, known = boxes[chosen], outputs[chosen]
        halves, found = _best_halves(enclose, parents, known)
        boxes, outputs = Interval.joined([boxes[kept], halves]), Interval.joined([outputs[kept], found])
    return Interval(outputs.lower.amin(0, keepdim=True), outputs.upper.amax(0, keepdim=True))


def _best_halves(enclose: Enclose, parents: Interval, known: Interval) -> tuple[Interval, Interval]:
    """Two halves of each box and the outputs over them, of all ways to halve it the one that leaves least."""
    lower, upper = parents.lower.flatten(1), parents.upper.flatten(1)
    count, inputs = lower.shape
    axes = (upper - lower).argsort(1, descending=True)[:, :_AXES]
    cut = torch.nn.functional.one_hot(axes, inputs).bool()  # (count, axes, inputs)
    low, high = lower[:, None].expand(cut.shape), upper[:, None].expand(cut.shape)
    middle = (low + high) / 2
    lows = torch.stack([low, torch.where(cut, middle, low)], 2)  # (count, axes, 2, inputs)
    highs = torch.stack([torch.where(cut, middle, high), high], 2)
    shape = parents.lower.shape[1:]
    tried = Interval(lows.reshape(-1, *shape), highs.reshape(-1, *shape))
    found = enclose(tried)
    pairs = count * cut.shape[1]
    ends = [end.reshape(pairs, 2, -1) for end in (found.lower, found.upper)]
    before = (known.upper - known.lower).flatten(1).clamp(min=1e-300)
    left = (ends[1].amax(1) - ends[0].amin(1)).reshape(count, -1, before.shape[1]) / before[:, None]
    best = left.mean(2).argmin(1) + torch.arange(count) * cut.shape[1]
    both = torch.stack([2 * best, 2 * best + 1], 1).flatten()
    twice = torch.arange(count).repeat_interleave(2)
    return tried[both], found[both].meet(known[twice])
