r"""How far a network's own rounding can take its outputs, by what each operation's error does to them.

Operation :math:`k` errs by at most :math:`\delta_k`. Exchanging exact results for rounded ones, one operation after the
other, gives

.. math:: |\hat f - f| \le \sum_k \sup |\lambda_k|^T \delta_k

where :math:`\lambda_k` is the derivative of the output with respect to the result of operation :math:`k`, anywhere
where exact and rounded results can be: an interval, found backwards. An error carried forwards by absolute values
grows with every layer; here it grows with what the layers really do to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value
from pinets.algebra.domains.footprint import magnitude_of
from pinets.algebra.domains.interval import Interval
from pinets.algebra.domains.rounding import Rounding
from pinets.algebra.domains.zonotope import Zonotope, ZonotopeDomain

__all__ = ["Taped", "TapeDomain"]

_OURS = Rounding.of(None)


@dataclass(frozen=True)
class Taped(Value):
    """A zonotope, and the number of the operation that gave it; None for inputs and constants."""

    zonotope: Zonotope
    number: int | None = None


@dataclass(frozen=True)
class _Record:
    result: Zonotope
    operands: tuple[Taped, ...]
    backwards: Callable[[Interval, int], Interval]  # slopes for the result give those for one of the operands


class TapeDomain(Domain):
    """Run a graph on zonotopes and remember the operations.

    Args:
        inner: The zonotopes.
    """

    def __init__(self, inner: ZonotopeDomain) -> None:
        self.inner = inner
        self._records: list[_Record] = []

    def box(self, lower: Tensor, upper: Tensor) -> Taped:
        """All between two tensors."""
        return Taped(self.inner.box(lower, upper))

    def constant(self, tensor: Tensor) -> Taped:
        return Taped(self.inner.constant(tensor))

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Taped:
        operands = _as_taped(values)
        zeros = [torch.zeros_like(operand.zonotope.center) for operand in operands]

        def backwards(slope: Interval, position: int) -> Interval:
            forth, size = (_transpose(f, zeros, position) for f in (function, magnitude_of(function)))
            return _around(forth(slope.middle), size(_widened(slope)))

        result = self.inner.linear(function, *(operand.zonotope for operand in operands))
        return self._remember(result, operands, backwards)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Taped:
        operands = _as_taped((left, right))
        hulls, magnitude = [operand.zonotope.hull for operand in operands], magnitude_of(function)

        def backwards(slope: Interval, position: int) -> Interval:
            other = hulls[1 - position]

            def beside(f: Callable[..., Tensor], factor: Tensor) -> Callable[[Tensor], Tensor]:
                own = hulls[position].lower
                return _transpose(f, [own, factor] if position == 0 else [factor, own], position)

            radius = beside(magnitude, other.middle.abs())(_widened(slope))
            radius = radius + beside(magnitude, other.radius)(slope.size) * (1 + _OURS.gamma(slope.lower.numel()))
            return _around(beside(function, other.middle)(slope.middle), radius)

        result = self.inner.product(function, operands[0].zonotope, operands[1].zonotope)
        return self._remember(result, operands, backwards)

    def guard(self, value: Value, reach: Callable[..., Tensor], *operands: Value) -> Taped:
        (found,), given = _as_taped([value]), _as_taped(operands)
        result = self.inner.guard(found.zonotope, reach, *(operand.zonotope for operand in given))
        return self._remember(result, [found], lambda slope, position: slope)

    def reciprocal(self, value: Value) -> Taped:
        (found,) = _as_taped([value])
        return Taped(self.inner.reciprocal(found.zonotope))  # its noise holds all that is unknown about it

    def errors(self, output: Taped, slopes: Tensor) -> Tensor:
        """How far rounding can take linear functions of the output, whose coefficients are (functions, *shape)."""
        total = torch.zeros(len(slopes), dtype=torch.float64)
        known = {output.number: Interval(slopes, slopes)}
        for number in reversed(range(len(self._records))):
            slope, record = known.pop(number, None), self._records[number]
            if slope is None:
                continue
            fresh = record.result.fresh
            total = total + (slope.size * fresh).reshape(len(slopes), -1).sum(1) * (1 + _OURS.gamma(fresh.numel()))
            for position, operand in enumerate(record.operands):
                if operand.number is None:
                    continue
                found, before = record.backwards(slope, position), known.get(operand.number)
                if before is not None:
                    found = _around(before.middle + found.middle, before.radius + found.radius)
                known[operand.number] = found
        return torch.where(total.isnan(), torch.inf, total * (1 + _OURS.gamma(len(self._records))))

    def _remember(
        self, result: Zonotope, operands: Sequence[Taped], backwards: Callable[[Interval, int], Interval]
    ) -> Taped:
        self._records.append(_Record(result, tuple(operands), backwards))
        return Taped(result, len(self._records) - 1)


def _transpose(function: Callable[..., Tensor], at: Sequence[Tensor], position: int) -> Callable[[Tensor], Tensor]:
    """The transpose of a function that is linear in one of its arguments, for several slopes at a time."""

    def alone(x: Tensor) -> Tensor:
        return function(*at[:position], x, *at[position + 1 :])

    def transposed(slopes: Tensor) -> Tensor:
        pull = torch.func.vjp(alone, at[position])[1]
        found: Tensor = torch.vmap(lambda slope: pull(slope)[0])(slopes)
        return found

    return transposed


def _widened(slope: Interval) -> Tensor:
    """The radius of slopes, with the rounding of the sums that map them: at most over all their elements."""
    return slope.radius + _OURS.gamma(slope.lower.numel()) * slope.size


def _around(middle: Tensor, radius: Tensor) -> Interval:
    wider = radius + _OURS.gamma(1) * (middle.abs() + radius)
    return Interval(middle - wider, middle + wider)


def _as_taped(values: Sequence[Value]) -> list[Taped]:
    taped = [value for value in values if isinstance(value, Taped)]
    if len(taped) != len(values):
        raise TypeError("values of another domain cannot be mixed with values on a tape")
    return taped
