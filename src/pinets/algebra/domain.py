"""What an algebra must be able to do for a network to be run in it: combine values linearly, and multiply them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Domain", "NotPolynomialError", "Operation", "Signed", "Value", "depends_on_input"]


class NotPolynomialError(ValueError):
    """What was asked is exact for polynomials only, and the network is not one."""


class Value:
    """Something that depends on the input, in some domain; all else in a graph is a constant."""


class Domain(Protocol):
    """An algebra to run a graph in."""

    def constant(self, tensor: Tensor) -> Value:
        """The value of something that does not depend on the input."""

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """Apply a function that is linear in all its arguments together, without a constant term.

        No coefficient of the function is negative, unless it is a :class:`Signed` one.
        """

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Value:
        """Apply a function that is linear in each of its two arguments, with coefficients as in :meth:`linear`."""

    def refuse(self, operation: Operation, reason: str) -> Any:
        """Answer an operation that is not polynomial in the input: raise, or note it and go on."""


@dataclass(frozen=True)
class Signed:
    """A (bi)linear function with negative coefficients, and what it is with their absolute values.

    It is called as any function is; what carries sizes through a network (intervals) asks for the magnitude, and for
    ``terms``, the same with ones as coefficients, where there can be more terms than operands have elements.
    """

    function: Callable[..., Tensor]
    magnitude: Callable[..., Tensor]
    terms: Callable[..., Tensor] | None = None

    def __call__(self, *values: Tensor) -> Tensor:
        return self.function(*values)


@dataclass(frozen=True)
class Operation:
    """One operation of a graph with its arguments, some of which depend on the input."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    path: str  # of the module it stands in; empty for the network itself
    module: str  # name of that module's class
    example: Any  # a fake tensor of the result's shape
    first_shape: torch.Size  # of the first argument
    dtype: torch.dtype | None = None  # that everything is computed in; None for each operation's own

    def zeros(self, shape: Sequence[int]) -> Tensor:
        """Zeros as the network itself would make them, to fill with a constant of the operation."""
        return torch.zeros(tuple(shape), dtype=self.example.dtype, device=self.example.device)

    def made(self, tensor: Tensor) -> Tensor:
        """A constant of the operation, which has the network's own type, in the type everything is computed in."""
        return tensor.to(self.dtype) if tensor.is_floating_point() and self.dtype is not None else tensor

    @property
    def name(self) -> str:
        """The operation's name as torch spells it, without overload or namespace: ``max_pool2d``."""
        name = getattr(self.target, "_opname", None) or getattr(self.target, "__name__", str(self.target))
        return str(name)


def depends_on_input(arguments: Any) -> bool:
    """Whether there is a value among (nested) arguments."""
    if isinstance(arguments, Value):
        return True
    if isinstance(arguments, dict):
        return any(depends_on_input(argument) for argument in arguments.values())
    if isinstance(arguments, (list, tuple)):
        return any(depends_on_input(argument) for argument in arguments)
    return False
