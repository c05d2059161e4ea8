"""Leading forms: the terms of highest degree alone, at the cost of one forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value

__all__ = ["Leading", "LeadingDomain"]


@dataclass(frozen=True)
class Leading(Value):
    """The part of highest degree: ``form * 2**exponent``, which keeps degrees in the hundreds within range."""

    degree: int
    form: Tensor
    exponent: int = 0

    @staticmethod
    def scaled(degree: int, form: Tensor, exponent: int) -> Leading:
        largest = form.abs().max().item() if form.numel() else 0.0
        shift = math.frexp(largest)[1] if 0 < largest < math.inf else 0
        return Leading(degree, torch.ldexp(form, torch.tensor(-shift)), exponent + shift)

    @property
    def zero(self) -> bool:
        return not bool(self.form.any())


class LeadingDomain(Domain[Leading]):
    """Keep of every value only its terms of highest degree.

    Where these cancel, the value's true degree is lower than the structure allows: :attr:`cancelled` says so, and
    what follows is no longer the leading form.
    """

    def __init__(self) -> None:
        self.cancelled = False

    def constant(self, tensor: Tensor) -> Leading:
        return Leading(0, tensor)

    def linear(self, function: Callable[..., Tensor], *values: Leading) -> Leading:
        present = [form for form in values if not form.zero]
        if not present:
            return Leading(0, function(*(form.form for form in values)))
        degree = max(form.degree for form in present)
        highest = [form for form in present if form.degree == degree]
        exponent = max(form.exponent for form in highest)
        out = function(
            *(
                torch.ldexp(form.form, torch.tensor(form.exponent - exponent))
                if form.degree == degree
                else form.form * 0  # NaN remains
                for form in values
            )
        )
        if degree > 0 and not bool(out.any()):
            self.cancelled = True
        return Leading.scaled(degree, out, exponent)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Leading, right: Leading) -> Leading:
        out = function(left.form, right.form)
        if left.zero or right.zero:
            return Leading(0, out)
        if left.degree + right.degree > 0 and not bool(out.any()):
            self.cancelled = True
        return Leading.scaled(left.degree + right.degree, out, left.exponent + right.exponent)
