"""The interface of a domain, in which a graph runs: it maps values linearly and multiplies them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

__all__ = [
    "Domain",
    "NotPolynomialError",
    "Operation",
    "Refusal",
    "Signed",
    "V",
    "Value",
    "depends_on_input",
    "in_one_argument",
]


class NotPolynomialError(ValueError):
    """An exact answer exists for polynomials only, and the network is not one."""


class Refusal(Exception):  # noqa: N818  it never leaves the algebra
    """The reason why an operation is not polynomial."""


class Value:
    """A quantity that depends on the input, in some domain; everything else in a graph is a constant."""


V = TypeVar("V", bound=Value)


def in_one_argument(
    function: Callable[..., Tensor], arguments: Sequence[Tensor], position: int
) -> Callable[[Tensor], Tensor]:
    """The function of one argument, with the others fixed."""
    return lambda x: function(*arguments[:position], x, *arguments[position + 1 :])


class Domain(ABC, Generic[V]):
    """An algebra that a graph runs in, with its own type of values."""

    @abstractmethod
    def constant(self, tensor: Tensor) -> V:
        """The value of a constant."""

    @abstractmethod
    def linear(self, function: Callable[..., Tensor], *values: V) -> V:
        """Apply a function that is linear in all its arguments together, without a constant term.

        No coefficient of the function is negative, unless it is :class:`Signed`.
        """

    @abstractmethod
    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: V, right: V) -> V:
        """Apply a function that is linear in each of its two arguments, with coefficients as in :meth:`linear`."""

    def refuse(self, operation: Operation, reason: str) -> Any:
        """Answer an operation that is not polynomial: raise an error, or note it and go on."""
        where = f" in {operation.path}" if operation.path else ""
        raise NotPolynomialError(f"{operation.name}{where} {reason}")

    def guard(self, value: V, reach: Callable[..., Tensor], *operands: V) -> V:
        """Allow for overflow and underflow inside the operation of torch that gives the value.

        Args:
            value: The result.
            reach: How large an intermediate result can get, for operands of the given sizes.
            operands: What the operation takes.
        """
        return value

    def reciprocal(self, value: V) -> V | None:
        """One over a computed constant; None in domains that need the constant itself."""
        return None


@dataclass(frozen=True)
class Signed:
    """A (bi)linear function with negative coefficients.

    ``terms`` has ones as coefficients, and is there if an output sums more terms than its operands have elements.
    """

    function: Callable[..., Tensor]
    magnitude: Callable[..., Tensor]  # the same with the absolute values of the coefficients
    terms: Callable[..., Tensor] | None = None

    def __call__(self, *values: Tensor) -> Tensor:
        return self.function(*values)


@dataclass(frozen=True)
class Operation:
    """One operation of a graph with its arguments, some of which depend on the input.

    ``enclosures`` are values of computed constants, by the constant's ``id``: see :func:`pinets.algebra.rules.enclose`.
    """

    target: Any  # the function of torch
    args: tuple[Any, ...]  # values, tensors, numbers
    kwargs: dict[str, Any]
    path: str  # of the module that calls it; empty for the network itself
    module: str  # the name of that module's class
    example: Any  # a fake tensor (or a list of them) of the result's shape and type
    examples: tuple[Any, ...]  # the same for each of args
    dtype: torch.dtype | None = None  # that everything is computed in; None keeps the network's own
    enclosures: Mapping[int, tuple[Tensor, Value]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operation's name in torch, without overload or namespace: ``max_pool2d``."""
        name = getattr(self.target, "_opname", None) or getattr(self.target, "__name__", str(self.target))
        return str(name)

    @property
    def shape(self) -> torch.Size:
        """The shape of the first argument."""
        shape: torch.Size = self.examples[0].shape
        return shape

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument that may be given by position or by name."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the network's own type, to be filled with a constant of the operation."""
        return torch.zeros(shape, dtype=self.example.dtype, device=self.example.device)

    def made(self, tensor: Tensor) -> Tensor:
        """A constant of the operation, converted to the type that everything is computed in."""
        return tensor.to(self.dtype) if tensor.is_floating_point() and self.dtype is not None else tensor


def depends_on_input(arguments: Any) -> bool:
    """Whether there is a value among (nested) arguments."""
    return any(isinstance(argument, Value) for argument in tree_leaves(arguments))
