"""Bounds on the errors of floating-point results, for any order of summation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["OURS", "Rounding"]

_DOUBLE = 2.0**-53  # relative error of one operation in double precision
_SPARE = 16  # further operations around a sum: rounding a constant, a midpoint, the sum of two bounds


@dataclass(frozen=True)
class Rounding:
    r"""The standard model: an operation errs by at most ``unit`` of its result, or by ``tiny``.

    A sum of :math:`n` products then errs by at most :math:`\gamma_n = nu / (1 - nu)` of the sum of their absolute
    values, in any order. ``unit`` holds the error of the network's operations in the precision it is evaluated in, and
    of our own operations in double precision. Numbers beyond ``largest`` may overflow, and are unbounded.
    """

    unit: float
    tiny: float
    largest: float

    @staticmethod
    def of(dtype: torch.dtype | None) -> Rounding:
        """For a network evaluated in a precision; None for the exact value of its polynomial.

        >>> Rounding.of(torch.float32).gamma(100) > Rounding.of(None).gamma(100)
        True
        """
        if dtype is None:
            facts = torch.finfo(torch.float64)
            return Rounding(4 * _DOUBLE, facts.tiny, facts.max / 2)
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"bounds are known for evaluation in float32 and float64, got {dtype}: sums in it may lose all digits; "
                f"convert the network with .float()"
            )
        facts = torch.finfo(dtype)
        return Rounding(facts.eps / 2 + 4 * _DOUBLE, facts.tiny, facts.max / 2)

    def gamma(self, count: float) -> float:
        """The relative error of a sum of so many products and a few operations around it."""
        total = (count + _SPARE) * self.unit
        if total > 0.1:
            raise ValueError(f"a sum of {count:.3g} products may lose all its digits in this precision")
        return total / (1 - total)

    def stray(self, reach: Tensor) -> Tensor:
        """The error from underflow inside an operation with results up to ``reach``; infinite on overflow.

        A product that underflows errs by ``tiny``, which further factors of at most ``reach`` multiply.
        """
        return torch.where(reach <= self.largest, _SPARE * self.tiny * reach.clamp(min=1), torch.inf)

    def slack(self, count: float, size: Tensor) -> Tensor:
        """The error of sums of so many products, whose absolute values sum up to ``size``; infinite on overflow."""
        error = self.gamma(count) * size + self.tiny * (count + _SPARE)
        return torch.where(size <= self.largest, error, torch.inf)


OURS = Rounding.of(None)  # errors of the bounds' own computations, in double precision
