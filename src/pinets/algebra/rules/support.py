"""Helpers of the rules: lifting arguments into the domain, and refusing those that must be constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Operation, Refusal, Value
from pinets.algebra.reasons import COMPLEX, NOT_FINITE

__all__ = ["Rule", "at_least_one", "finite", "lift", "refuse_rounding", "require_constant"]

Rule = Callable[[Domain, Operation], Any]


def lift(domain: Domain, operation: Operation, argument: Any) -> Value:
    """An argument as a value: a constant becomes one, rounded as the network rounds it."""
    if isinstance(argument, Value):
        return argument
    known = operation.enclosures.get(id(argument))
    return domain.constant(_rounded(operation, argument)) if known is None else known[1]


def finite(operation: Operation, argument: Any) -> Tensor:
    """A constant that a rule takes as it is, rounded as the network rounds it; refused if it is NaN or infinite."""
    found = _rounded(operation, argument)
    if not found.is_meta and not found.isfinite().all():
        raise Refusal(NOT_FINITE)
    return found


def _rounded(operation: Operation, argument: Any) -> Tensor:
    """A constant in the precision of the result, to which torch converts numbers and scalar tensors."""
    example = operation.example[0] if isinstance(operation.example, (list, tuple)) else operation.example
    if isinstance(argument, complex) or (isinstance(argument, Tensor) and argument.is_complex()):
        raise Refusal(COMPLEX)
    found = argument if isinstance(argument, Tensor) else torch.tensor(float(argument), dtype=torch.float64)
    exact = example.dtype == torch.float64 or not (example.is_floating_point() and found.is_floating_point())
    return found if exact else found.float().to(found.dtype)


def require_constant(operation: Operation, *positions: int) -> None:
    """Refuse an operation if one of these arguments depends on the input."""
    for position in positions:
        if position < len(operation.args) and isinstance(operation.args[position], Value):
            raise Refusal(f"argument {position} depends on the input")


def refuse_rounding(operation: Operation) -> None:
    """Refuse an operation whose result is not of a real floating-point type."""
    if operation.example.is_complex():
        raise Refusal(COMPLEX)
    if not operation.example.is_floating_point():
        raise Refusal(f"rounds to {operation.example.dtype}")


def at_least_one(size: Tensor) -> Tensor:
    """Sizes of factors, none below 1: their product bounds the product of any of the factors."""
    return size.abs().clamp(min=1)
