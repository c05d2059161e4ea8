"""Outputs over a box of inputs: bounds, margins and Lipschitz constants that hold for every input in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pinets.algebra.domains.interval import Interval
from pinets.algebra.enclosure import Problem, boxes_of, check_labels
from pinets.algebra.traced import Traced

__all__ = ["Bounds", "ball", "bounds", "interval_bounds", "lipschitz", "margins"]

Enclose = Callable[[Interval], Interval]  # outputs over each of several boxes

_AXES = 16  # inputs along which halving a box is tried: the widest ones


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bounds of every output, for every input of a box.

    Attributes:
        lower: Of the outputs' shape, in double precision.
        upper: The same.
    """

    lower: Tensor
    upper: Tensor

    @property
    def width(self) -> Tensor:
        return self.upper - self.lower


def ball(x: Tensor, eps: float, *, minimum: float = -math.inf, maximum: float = math.inf) -> tuple[Tensor, Tensor]:
    """The box of all inputs that differ from the given one by at most ``eps`` in each element, rounded outwards.

    Args:
        x: One input in each row.
        eps: The radius.
        minimum: The least value of an input, such as 0 for pixels.
        maximum: The largest value of an input.

    Example:
        >>> ball(torch.tensor([[0.0, 0.5]]), 0.25, minimum=0.0)
        (tensor([[0.0000, 0.2500]], dtype=torch.float64), tensor([[0.2500, 0.7500]], dtype=torch.float64))
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor, got {type(x).__name__}")
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps must not be negative, got {eps}")
    if not minimum <= maximum:
        raise ValueError(f"minimum must not exceed maximum, got {minimum} and {maximum}")
    centre = x.detach().double()
    infinite = torch.full_like(centre, math.inf)
    lower, upper = torch.nextafter(centre - eps, -infinite), torch.nextafter(centre + eps, infinite)
    if eps == 0:
        lower, upper = centre, centre
    if outside := int(((upper < minimum) | (lower > maximum)).sum()):
        raise ValueError(
            f"x must be at most eps = {eps} below minimum = {minimum} or above maximum = {maximum}, else no input is "
            f"left; got {outside} of {x.numel()} values beyond, from {float(centre.min()):g} to {float(centre.max()):g}"
        )
    return lower.clamp(minimum, maximum), upper.clamp(minimum, maximum)


def bounds(
    model: nn.Module | Traced,
    lower: Tensor,
    upper: Tensor,
    *,
    boxes: int = 1,
    precision: torch.dtype | None = torch.float32,
) -> Bounds:
    """Bound the outputs of a polynomial network over a box of inputs.

    The bounds hold for every input between ``lower`` and ``upper``, rounding included: that of these computations, and
    that of the network evaluated in the given precision, in whatever order its sums are taken. They are never looser
    than :func:`interval_bounds`. For at most 128 inputs, and 64 outputs over all boxes, they are tightened by Shor's
    relaxation, which takes about 10 ms for each output.

    Args:
        model: A polynomial in evaluation mode (see :func:`pinets.algebra.certify`) with one output tensor.
        lower: The least inputs, one box in each row.
        upper: The largest inputs.
        boxes: Parts that each box may be divided into, for problems with few inputs: branch and bound.
        precision: In which the network is evaluated; None for the exact value of its polynomial.

    Example:
        >>> from pinets import PowerSum
        >>> found = bounds(PowerSum(2), *ball(torch.zeros(1, 1), 1.0), boxes=64)  # x + x**2 from -1/4 to 2
        >>> print(f"{found.lower.item():.2f} {found.upper.item():.2f}")
        -0.25 2.00
    """
    if isinstance(boxes, bool) or not isinstance(boxes, int) or boxes < 1:
        raise ValueError(f"boxes must be a whole number of at least 1, got {boxes!r}")
    box = boxes_of(lower, upper, precision)
    problem = Problem.of(model, box, precision)
    if boxes == 1:
        found = problem.enclose(box)
    else:
        enclose = replace(problem, sharpens=False).enclose
        found = Interval.joined([_refine(enclose, box[row : row + 1], boxes) for row in range(len(lower))])
    found = problem.sharpen(box, found)
    return Bounds(found.lower, found.upper)


def _refine(enclose: Enclose, box: Interval, most: int) -> Interval:
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


def interval_bounds(
    model: nn.Module | Traced, lower: Tensor, upper: Tensor, *, precision: torch.dtype | None = torch.float32
) -> Bounds:
    """As :func:`bounds`, by plain interval arithmetic: what everything else is compared with."""
    box = boxes_of(lower, upper, precision)
    found = Problem.of(model, box, precision).enclose_plainly(box)
    return Bounds(found.lower, found.upper)


def margins(
    model: nn.Module | Traced,
    lower: Tensor,
    upper: Tensor,
    labels: Tensor,
    *,
    precision: torch.dtype | None = torch.float32,
) -> Tensor:
    """For every box, by how much at least the output of its class exceeds each other output; 0 for the class itself.

    A classifier gives that class all over the box where the least margin over the others is positive. The difference of
    two outputs is bounded as one function, which is tighter than the difference of their bounds.

    Args:
        model: A polynomial classifier, with one row of outputs for each input.
        lower: The least inputs, one box in each row.
        upper: The largest inputs.
        labels: The class for each box.
        precision: In which the network is evaluated; None for the exact value of its polynomial.
    """
    box = boxes_of(lower, upper, precision)
    problem = Problem.of(model, box, precision)
    labels = check_labels(problem.outputs, labels, len(lower))
    identity = torch.eye(problem.outputs[-1], dtype=torch.float64)
    differences = identity[labels][:, None] - identity  # (boxes, classes, classes): label minus each
    found = problem.sharpen(box, problem.enclose(box, differences), differences).lower
    return found.masked_fill(identity[labels].bool(), 0.0)


def lipschitz(model: nn.Module | Traced, lower: Tensor, upper: Tensor) -> Tensor:
    r"""Bound how fast each output changes over a box: :math:`|f_o(x) - f_o(y)| \le L_o \|x - y\|_\infty` in it.

    :math:`L_o` bounds the sum of the absolute derivatives of output :math:`o` at every point of the box.

    Args:
        model: A polynomial in evaluation mode with one output tensor.
        lower: The least inputs, one box in each row.
        upper: The largest inputs.

    Example:
        >>> from pinets import PowerSum
        >>> rate = lipschitz(PowerSum(2), *ball(torch.zeros(1, 1), 1.0))  # of x + x**2
        >>> print(f"{rate.item():.4f}")
        3.0000
    """
    box = boxes_of(lower, upper, None)
    return Problem.of(model, box, None).rate(box)
