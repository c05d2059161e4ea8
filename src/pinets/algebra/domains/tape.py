r"""What the operations of a network do to its outputs, found backwards: rounding errors, linear bounds, slopes.

A graph runs in another domain, and the tape remembers the operations, each with what its result lies in. Backwards
through them,

- rounding takes an output :math:`f` at most :math:`\sum_k \sup |\lambda_k|^T \delta_k` away, where :math:`\delta_k` is
  the error of operation :math:`k` and :math:`\lambda_k` the derivative of the output with respect to its result,
  anywhere where exact and rounded results can be. An error carried forwards by absolute values grows with every layer;
  here it grows with what the layers really do to it;
- an output is at least a linear function of the inputs. With :math:`x = c_x + r_x a` and :math:`y = c_y + r_y b`,
  :math:`|a|, |b| \le 1`, a product is :math:`xy = c_x y + c_y x - c_x c_y + r_x r_y ab`, and only the last term is not
  linear. That needs one number for each value and output, where a zonotope needs one for each value and input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value, in_one_argument
from pinets.algebra.domains.footprint import count_terms, footprints, magnitude_of
from pinets.algebra.domains.interval import Interval, IntervalDomain, count_products
from pinets.algebra.domains.rounding import OURS
from pinets.algebra.domains.zonotope import Zonotope, ZonotopeDomain

__all__ = ["TapeDomain", "Taped"]

_AT_ONCE = 2**22  # elements of the slopes that are computed at a time
_MOST_WORK = 2**31  # outputs times elements of all values, beyond which the bounds of a factor are not sharpened


@dataclass(frozen=True)
class Taped(Value):
    """A value of the inner domain."""

    inner: Interval | Zonotope
    number: int | None = None  # of the operation that gave it; None for constants
    varies: bool = False  # with the input
    sums: int = 0  # how often it was summed up since the input; intervals are exact after one sum

    @property
    def hull(self) -> Interval:
        return self.inner if isinstance(self.inner, Interval) else self.inner.hull


@dataclass(frozen=True)
class _Record:
    """An operation; the input, if it has no operands."""

    hull: Interval  # all that its result can be
    operands: tuple[Taped, ...] = ()
    function: Callable[..., Tensor] = torch.clone  # linear in all operands together, or in each of two if it multiplies
    multiplies: bool = False
    error: Tensor | None = None  # how far rounding takes its result away
    size: Tensor | None = None  # the largest sum of the absolute values of its terms

    def slopes(self, slope: Interval, position: int) -> Interval:
        """Derivatives by the result give those by an operand, at all values of the others."""
        magnitude, hulls = magnitude_of(self.function), [operand.hull for operand in self.operands]
        widened = slope.radius + OURS.gamma(slope.lower.numel()) * slope.size

        def transposed(function: Callable[..., Tensor], other: Tensor | None = None) -> Callable[[Tensor], Tensor]:
            at = [hull.lower if other is None or number == position else other for number, hull in enumerate(hulls)]
            return _transpose(function, at, position)

        if not self.multiplies:
            return _around(transposed(self.function)(slope.middle), transposed(magnitude)(widened))
        other = hulls[1 - position]
        radius = transposed(magnitude, other.middle.abs())(widened)
        radius = radius + transposed(magnitude, other.radius)(slope.size) * (1 + OURS.gamma(slope.lower.numel()))
        return _around(transposed(self.function, other.middle)(slope.middle), radius)

    def relaxed(self, slopes: Tensor) -> tuple[dict[int, Tensor], Tensor, Tensor]:
        """Linear functions of the result lie between two of the operands, which differ by constants.

        Returns:
            The coefficients for each operand that is no constant, by its position; the lower constants; the upper ones.
        """
        hulls = [operand.hull for operand in self.operands]
        at, varying = [hull.middle for hull in hulls], [n for n, o in enumerate(self.operands) if o.number is not None]
        parts = {position: _transpose(self.function, at, position)(slopes) for position in varying}
        magnitude = magnitude_of(self.function)
        if not self.multiplies:
            constant, rest = slopes.new_zeros(len(slopes)), None
            if len(varying) < len(hulls):
                zeros = {position: torch.zeros_like(at[position]) for position in varying}
                constant = _dot(slopes, self.function(*(zeros.get(n, hull.middle) for n, hull in enumerate(hulls))))
                rest = magnitude(*(zeros.get(n, hull.radius) for n, hull in enumerate(hulls)))
        elif len(varying) == 2:
            constant, rest = -_dot(slopes, self.function(*at)), magnitude(*(hull.radius for hull in hulls))
            if self.function is torch.mul and self.operands[0].number == self.operands[1].number:  # a square
                return parts, constant + _dot(slopes.clamp(max=0), rest), constant + _dot(slopes.clamp(min=0), rest)
        else:
            constant = slopes.new_zeros(len(slopes))
            rest = magnitude(*(hull.size if n in varying else hull.radius for n, hull in enumerate(hulls)))
        spread = 0.0 if rest is None else _dot(slopes.abs(), rest)
        return parts, constant - spread, constant + spread


class TapeDomain(Domain[Taped]):
    """Run a graph in another domain and remember the operations.

    Args:
        inner: Intervals or zonotopes.
        sharpens: Whether the bounds of factors are sharpened by linear functions before they are multiplied.
    """

    def __init__(self, inner: IntervalDomain | ZonotopeDomain, *, sharpens: bool = True) -> None:
        self.inner: Any = inner  # its values are intervals or zonotopes, one kind in a run
        self.rounding, self.sharpens = inner.rounding, sharpens
        self._records: list[_Record] = []
        self._sharp: dict[int, Interval] = {}

    def box(self, lower: Tensor, upper: Tensor) -> Taped:
        """The input: all between two tensors."""
        self._records.append(_Record(Interval(lower, upper)))
        return Taped(self.inner.box(lower, upper), 0, varies=True)

    def constant(self, tensor: Tensor) -> Taped:
        return Taped(self.inner.constant(tensor))

    def linear(self, function: Callable[..., Tensor], *values: Taped) -> Taped:
        result = self.inner.linear(function, *(operand.inner for operand in values))
        if self.rounding is None:
            return self._remember(result, values, function)
        at = [operand.hull.lower for operand in values]
        uses = footprints(function, at)
        count, picks = count_terms(function, uses, at), all(use.picks for use in uses)
        size = magnitude_of(function)(*(operand.hull.size for operand in values))
        error = self.rounding.slack(count, size) if count else torch.zeros_like(size)
        sums = 0 if picks and sum(operand.varies for operand in values) <= 1 else 1
        return self._remember(result, values, function, error=error, size=size, sums=sums)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Taped, right: Taped) -> Taped:
        x, y = left, right
        if self.sharpens and x.varies and y.varies:
            x, y = self._sharpened(x), self._sharpened(y)
        result = self.inner.product(function, x.inner, y.inner)
        if self.rounding is None:
            return self._remember(result, [x, y], function, multiplies=True)
        size = magnitude_of(function)(x.hull.size, y.hull.size)
        error = self.rounding.slack(count_products(function, x.hull.lower, y.hull.lower), size)
        sums = 2 if x.varies and y.varies else int(function is not torch.mul)
        return self._remember(result, [x, y], function, multiplies=True, error=error, size=size, sums=sums)

    def guard(self, value: Taped, reach: Callable[..., Tensor], *operands: Taped) -> Taped:
        if self.rounding is None:
            return value
        result = self.inner.guard(value.inner, reach, *(operand.inner for operand in operands))
        stray = self.rounding.stray(reach(*(operand.hull.size for operand in operands)))
        error = stray.expand(value.hull.lower.shape)
        return self._remember(result, [value], lambda x: x, error=error, size=value.hull.size)

    def reciprocal(self, value: Taped) -> Taped | None:
        inverse = self.inner.reciprocal(value.inner)  # its interval holds all that is unknown about it
        return None if inverse is None else Taped(inverse)

    def errors(self, output: Taped, rows: Tensor) -> Tensor:
        """Bounds on the rounding errors of linear functions of the output, with coefficients (functions, *shape)."""
        total = rows.new_zeros(len(rows))
        for record, slope in self._slopes(output, rows):
            if record.error is not None:
                total = total + _dot(slope.size, record.error) * (1 + OURS.gamma(record.error.numel()))
        return torch.where(total.isnan(), torch.inf, total * (1 + OURS.gamma(len(self._records))))

    def rates(self, output: Taped, rows: Tensor) -> Tensor:
        """Bounds on how fast linear functions of the output change with the input."""
        for record, slope in self._slopes(output, rows):
            if not record.operands:
                total = slope.size.reshape(len(rows), -1).sum(1) * (1 + OURS.gamma(record.hull.lower.numel()))
                return torch.where(total.isnan(), torch.inf, total)
        return rows.new_zeros(len(rows))

    def bound(self, output: Taped, rows: Tensor) -> Interval:
        """Bounds of linear functions of the output, as the network rounds it."""
        low = high = spread = rows.new_zeros(len(rows))
        known = {output.number: rows}
        for number in reversed(range(len(self._records))):
            slopes, record = known.pop(number, None), self._records[number]
            if slopes is None:
                continue
            steepness = slopes.abs()
            if self.rounding is not None:
                size = record.hull.size if record.size is None else record.size
                count = size.numel() + sum(operand.hull.lower.numel() for operand in record.operands)
                loss = 4 * OURS.slack(count + len(self._records), size)
                spread = spread + _dot(steepness, loss if record.error is None else loss + record.error)
            if all(operand.number is None for operand in record.operands):  # the input, and what constants give
                spread = spread + _dot(steepness, record.hull.radius)
                low, high = (total + _dot(slopes, record.hull.middle) for total in (low, high))
                continue
            parts, below, above = record.relaxed(slopes)
            low, high = low + below, high + above
            for position, part in parts.items():
                operand = record.operands[position].number
                known[operand] = part if operand not in known else known[operand] + part
        low, high = low - spread, high + spread  # what overflows is not a number, and can be anything
        return Interval(torch.where(low.isnan(), -torch.inf, low), torch.where(high.isnan(), torch.inf, high))

    def _slopes(self, output: Taped, rows: Tensor) -> Iterator[tuple[_Record, Interval]]:
        """The derivatives of linear functions of the output with respect to the result of each operation."""
        known = {output.number: Interval(rows, rows)}
        for number in reversed(range(len(self._records))):
            slope, record = known.pop(number, None), self._records[number]
            if slope is None:
                continue
            yield record, slope
            for position, operand in enumerate(record.operands):
                if operand.number is None:
                    continue
                found, before = record.slopes(slope, position), known.get(operand.number)
                if before is not None:
                    found = _around(before.middle + found.middle, before.radius + found.radius)
                known[operand.number] = found

    def _sharpened(self, value: Taped) -> Taped:
        """A factor with tighter bounds, where plain intervals are loose and the work is affordable."""
        if self.rounding is None or value.sums < 2 or value.number is None:
            return value
        if value.number not in self._sharp:
            shape = value.hull.lower.shape
            elements = sum(record.hull.lower.numel() for record in self._records[: value.number + 1])
            if shape.numel() * elements > _MOST_WORK:
                return value
            rows = torch.eye(shape.numel(), dtype=torch.float64).reshape(-1, *shape)
            found = [self.bound(value, some) for some in rows.split(max(1, _AT_ONCE // elements))]
            self._sharp[value.number] = value.hull.meet(Interval.joined(found).reshape(shape))
        hull = self._sharp[value.number]
        return replace(value, inner=hull if isinstance(value.inner, Interval) else replace(value.inner, hull=hull))

    def _remember(
        self,
        result: Interval | Zonotope,
        operands: Sequence[Taped],
        function: Callable[..., Tensor],
        *,
        multiplies: bool = False,
        error: Tensor | None = None,
        size: Tensor | None = None,
        sums: int = 0,
    ) -> Taped:
        varies, before = any(operand.varies for operand in operands), max(operand.sums for operand in operands)
        found = Taped(result, len(self._records), varies, before + sums)
        self._records.append(_Record(found.hull, tuple(operands), function, multiplies, error, size))
        return found


def _transpose(function: Callable[..., Tensor], at: Sequence[Tensor], position: int) -> Callable[[Tensor], Tensor]:
    """The transpose of a function that is linear in one of its arguments, for several slopes at a time."""

    def transposed(slopes: Tensor) -> Tensor:
        pull = torch.func.vjp(in_one_argument(function, at, position), at[position])[1]
        found: Tensor = torch.vmap(lambda slope: pull(slope)[0])(slopes)
        return found

    return transposed


def _dot(slopes: Tensor, value: Tensor) -> Tensor:
    """Linear functions of a value, whose coefficients are (functions, *shape)."""
    return (slopes * value).reshape(len(slopes), -1).sum(1)


def _around(middle: Tensor, radius: Tensor) -> Interval:
    wider = radius + OURS.gamma(1) * (middle.abs() + radius)
    return Interval(middle - wider, middle + wider)
