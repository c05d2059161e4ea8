"""Truncated power series: the contribution of every degree, carried through the network in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value

__all__ = ["Series", "SeriesDomain"]


@dataclass(frozen=True)
class Series(Value):
    """A polynomial in one variable t with tensors as coefficients; a coefficient that is zero is left out."""

    coefficients: dict[int, Tensor]
    zero: Tensor  # of the coefficients' shape

    @staticmethod
    def of(coefficients: dict[int, Tensor]) -> Series:
        return Series(coefficients, torch.zeros_like(next(iter(coefficients.values()))))

    def __getitem__(self, degree: int) -> Tensor:
        return self.coefficients.get(degree, self.zero)


class SeriesDomain(Domain[Series]):
    """Run a graph on power series in t, exact up to the degree given (and wholly so if nothing exceeds it)."""

    def __init__(self, max_degree: int) -> None:
        self.max_degree = max_degree

    def constant(self, tensor: Tensor) -> Series:
        return Series.of({0: tensor})

    def linear(self, function: Callable[..., Tensor], *values: Series) -> Series:
        degrees = sorted(set().union(*(value.coefficients for value in values)))
        out = {degree: function(*(value[degree] for value in values)) for degree in degrees}
        return Series.of(out) if out else Series({}, function(*(value.zero for value in values)))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Series, right: Series) -> Series:
        out: dict[int, Tensor] = {}
        for i, x in left.coefficients.items():
            for j, y in right.coefficients.items():
                if i + j <= self.max_degree:
                    term = function(x, y)
                    out[i + j] = out[i + j] + term if i + j in out else term
        return Series.of(out) if out else Series({}, function(left.zero, right.zero))  # zero, or all beyond the degree
