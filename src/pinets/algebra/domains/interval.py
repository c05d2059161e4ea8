"""Plain interval arithmetic: every value by itself, without its dependence on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Signed, Value
from pinets.algebra.domains.footprint import Footprint, count_terms, footprints, magnitude_of
from pinets.algebra.domains.rounding import Rounding

__all__ = ["Interval", "IntervalDomain", "count_products", "invert_interval", "map_interval"]


@dataclass(frozen=True)
class Interval(Value):
    """All tensors between two given ones, element by element."""

    lower: Tensor
    upper: Tensor

    @property
    def middle(self) -> Tensor:
        return (self.lower + self.upper) / 2

    @property
    def radius(self) -> Tensor:
        return torch.maximum(self.upper - self.middle, self.middle - self.lower)

    @property
    def size(self) -> Tensor:
        """The largest absolute value."""
        return torch.maximum(self.lower.abs(), self.upper.abs())

    @staticmethod
    def joined(parts: Sequence[Interval]) -> Interval:
        """Intervals one behind the other along the first axis."""
        return Interval(torch.cat([part.lower for part in parts]), torch.cat([part.upper for part in parts]))

    def __getitem__(self, rows: slice | Tensor) -> Interval:
        return Interval(self.lower[rows], self.upper[rows])

    def reshape(self, shape: Sequence[int]) -> Interval:
        return Interval(self.lower.reshape(shape), self.upper.reshape(shape))

    def meet(self, other: Interval) -> Interval:
        return Interval(torch.maximum(self.lower, other.lower), torch.minimum(self.upper, other.upper))


class IntervalDomain(Domain[Interval]):
    """Run a graph on intervals; without a rounding, errors of operations are left out, and any precision will do."""

    def __init__(self, rounding: Rounding | None) -> None:
        self.rounding = rounding

    def box(self, lower: Tensor, upper: Tensor) -> Interval:
        return Interval(lower, upper)

    def constant(self, tensor: Tensor) -> Interval:
        value = tensor if self.rounding is None else tensor.double()
        return Interval(value, value)

    def linear(self, function: Callable[..., Tensor], *values: Interval) -> Interval:
        if self.rounding is None:
            magnitude = magnitude_of(function)
            middle, radius = function(*(x.middle for x in values)), magnitude(*(x.radius for x in values))
            return Interval(middle - radius, middle + radius)
        uses = footprints(function, [value.lower for value in values])
        return map_interval(function, values, uses, self.rounding)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Interval, right: Interval) -> Interval:
        """The values of a function of two intervals that is linear in each: exactly for elementwise products."""
        if function is torch.mul:
            corners = [a * b for a in (left.lower, left.upper) for b in (right.lower, right.upper)]
            low, high = reduce(torch.minimum, corners), reduce(torch.maximum, corners)
            if left is right:
                low = torch.where((left.lower <= 0) & (left.upper >= 0), 0.0, torch.minimum(corners[0], corners[3]))
            slack = 0.0 if self.rounding is None else self.rounding.slack(1, left.size * right.size)
            return Interval(low - slack, high + slack)
        magnitude = magnitude_of(function)
        middle, radius = function(left.middle, right.middle), magnitude(left.radius, right.size)
        if right.lower is not right.upper:  # else a constant
            radius = radius + magnitude(left.middle.abs(), right.radius)
        if self.rounding is not None:
            count = count_products(function, left.lower, right.lower)
            radius = radius + self.rounding.slack(count, magnitude(left.size, right.size))
        return Interval(middle - radius, middle + radius)

    def guard(self, value: Interval, reach: Callable[..., Tensor], *operands: Interval) -> Interval:
        if self.rounding is None:
            return value
        stray = self.rounding.stray(reach(*(operand.size for operand in operands)))
        return Interval(value.lower - stray, value.upper + stray)

    def reciprocal(self, value: Interval) -> Interval | None:
        return None if self.rounding is None else invert_interval(value, self.rounding)


def invert_interval(value: Interval, rounding: Rounding) -> Interval:
    """One over each number of an interval; anything if zero is among them."""
    ends = 1 / value.lower, 1 / value.upper
    slack = rounding.slack(1, torch.maximum(ends[0].abs(), ends[1].abs()))
    apart = (value.lower > 0) | (value.upper < 0)
    lower, upper = torch.minimum(*ends) - slack, torch.maximum(*ends) + slack
    return Interval(torch.where(apart, lower, -torch.inf), torch.where(apart, upper, torch.inf))


def map_interval(
    function: Callable[..., Tensor], operands: Sequence[Interval], uses: Sequence[Footprint], rounding: Rounding
) -> Interval:
    """The values of a linear function of intervals."""
    count = count_terms(function, uses, [value.lower for value in operands])
    if count == 0:  # nothing is computed, at most a sign changed
        ends = [function(*(value.lower for value in operands)), function(*(value.upper for value in operands))]
        return Interval(torch.minimum(*ends), torch.maximum(*ends))
    magnitude = magnitude_of(function)
    middle = function(*(value.middle for value in operands))
    size = magnitude(*(value.size for value in operands))
    radius = magnitude(*(value.radius for value in operands)) + rounding.slack(count, size)
    return Interval(middle - radius, middle + radius)


def count_products(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    """The largest number of products that an output of a bilinear function sums."""
    if function is torch.mul:
        return 1
    ones = (torch.ones(value.shape, dtype=torch.float64) for value in (x, y))
    terms = function.terms if isinstance(function, Signed) and function.terms is not None else magnitude_of(function)
    return float(terms(*ones).max())
