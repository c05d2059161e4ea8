"""Values with their derivative along a direction, in any other domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic

from torch import Tensor

from pinets.algebra.domains.base import Domain, V, Value

__all__ = ["Dual", "DualDomain"]


@dataclass(frozen=True)
class Dual(Value, Generic[V]):
    """A value and its derivative; None where that is zero."""

    value: V
    tangent: V | None


class DualDomain(Domain[Dual[V]]):
    """Run a graph on values of another domain with derivatives: linear maps map both, products follow Leibniz' rule."""

    def __init__(self, inner: Domain[V]) -> None:
        self.inner = inner

    def constant(self, tensor: Tensor) -> Dual[V]:
        return Dual(self.inner.constant(tensor), None)

    def linear(self, function: Callable[..., Tensor], *values: Dual[V]) -> Dual[V]:
        value = self.inner.linear(function, *(operand.value for operand in values))
        if all(operand.tangent is None for operand in values):
            return Dual(value, None)
        tangents = [operand.tangent or self.inner.linear(lambda x: x * 0, operand.value) for operand in values]
        return Dual(value, self.inner.linear(function, *tangents))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Dual[V], right: Dual[V]) -> Dual[V]:
        value = self.inner.product(function, left.value, right.value)
        parts = []
        if left.tangent is not None:
            parts.append(self.inner.product(function, left.tangent, right.value))
        if right.tangent is not None:
            parts.append(self.inner.product(function, left.value, right.tangent))
        tangent = self.inner.linear(lambda a, b: a + b, *parts) if len(parts) == 2 else next(iter(parts), None)
        return Dual(value, tangent)

    def guard(self, value: Dual[V], reach: Callable[..., Tensor], *operands: Dual[V]) -> Dual[V]:
        return replace(value, value=self.inner.guard(value.value, reach, *(operand.value for operand in operands)))

    def reciprocal(self, value: Dual[V]) -> Dual[V] | None:
        inverse = self.inner.reciprocal(value.value)
        return None if inverse is None else Dual(inverse, None)
