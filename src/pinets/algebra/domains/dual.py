"""Values with their derivative along a direction, in any other domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from pinets.algebra.domains.base import Domain, Value, all_of

__all__ = ["Dual", "DualDomain"]


@dataclass(frozen=True)
class Dual(Value):
    """A value and its derivative; None where that is zero."""

    value: Value
    tangent: Value | None


class DualDomain(Domain):
    """Run a graph on values of another domain with derivatives: linear maps map both, products follow Leibniz' rule."""

    def __init__(self, inner: Domain) -> None:
        self.inner = inner

    def constant(self, tensor: Tensor) -> Dual:
        return Dual(self.inner.constant(tensor), None)

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Dual:
        operands = all_of(Dual, values)
        value = self.inner.linear(function, *(operand.value for operand in operands))
        if all(operand.tangent is None for operand in operands):
            return Dual(value, None)
        tangents = [operand.tangent or self.inner.linear(lambda x: x * 0, operand.value) for operand in operands]
        return Dual(value, self.inner.linear(function, *tangents))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Dual:
        x, y = all_of(Dual, (left, right))
        value = self.inner.product(function, x.value, y.value)
        parts = []
        if x.tangent is not None:
            parts.append(self.inner.product(function, x.tangent, y.value))
        if y.tangent is not None:
            parts.append(self.inner.product(function, x.value, y.tangent))
        tangent = self.inner.linear(lambda a, b: a + b, *parts) if len(parts) == 2 else next(iter(parts), None)
        return Dual(value, tangent)

    def guard(self, value: Value, reach: Callable[..., Tensor], *operands: Value) -> Dual:
        (found,), given = all_of(Dual, [value]), all_of(Dual, operands)
        return replace(found, value=self.inner.guard(found.value, reach, *(operand.value for operand in given)))

    def reciprocal(self, value: Value) -> Dual | None:
        (found,) = all_of(Dual, [value])
        inverse = self.inner.reciprocal(found.value)
        return None if inverse is None else Dual(inverse, None)
