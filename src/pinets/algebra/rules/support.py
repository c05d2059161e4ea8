"""What rules share: lifting arguments into the domain, and refusing those that must be constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Operation, Refusal, Value

__all__ = ["Rule", "at_least_one", "lift", "refuse_rounding", "require_constant"]

Rule = Callable[[Domain, Operation], Any]


def lift(domain: Domain, operation: Operation, argument: Any) -> Value:
    """An argument as a value: a constant becomes one, rounded as the network rounds numbers."""
    if isinstance(argument, Value):
        return argument
    if isinstance(argument, Tensor):
        if argument.is_complex():
            raise Refusal("computes with complex numbers; only real ones are understood here")
        known = operation.enclosures.get(id(argument))
        return domain.constant(argument) if known is None else known[1]
    if isinstance(argument, complex):
        raise Refusal("computes with complex numbers; only real ones are understood here")
    exact = operation.example.dtype == torch.float64 or not operation.example.is_floating_point()
    return domain.constant(torch.tensor(float(argument), dtype=torch.float64 if exact else torch.float32).double())


def require_constant(operation: Operation, *positions: int) -> None:
    """Refuse an operation if one of these arguments depends on the input."""
    for position in positions:
        if position < len(operation.args) and isinstance(operation.args[position], Value):
            raise Refusal(f"argument {position} depends on the input")


def refuse_rounding(operation: Operation) -> None:
    """Refuse an operation whose result is not of a floating-point type."""
    if not operation.example.is_floating_point():
        raise Refusal(f"rounds to {operation.example.dtype}")


def at_least_one(size: Tensor) -> Tensor:
    """Sizes of factors, none below 1: their product bounds the product of any of the factors."""
    return size.abs().clamp(min=1)
