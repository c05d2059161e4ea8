r"""Coefficient tensors carried through a network.

A value is :math:`\sum_m W^{[m]} z \cdots z` with one tensor for every degree, of shape ``(d**m, *shape)``: its first
axis runs over all ordered :math:`m`-tuples of inputs. Products of values are outer products along that axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pinets.algebra.domain import NotPolynomialError, Operation, Value

__all__ = ["Dense", "DenseDomain", "Pending", "symmetrize"]


@dataclass(frozen=True)
class Pending:
    """The product of a linear and another value whose coefficient tensor was too large to write down."""

    function: Callable[[Tensor, Tensor], Tensor]  # linear in each argument
    linear: Tensor  # (d, ...)
    other: Tensor  # (d**(m - 1), ...)


@dataclass(frozen=True)
class Dense(Value):
    """Coefficients by degree; what is missing is zero, what is pending is to be added."""

    coefficients: dict[int, Tensor]
    zero: Tensor
    pending: dict[int, list[Pending]] = field(default_factory=dict)

    @staticmethod
    def of(coefficients: dict[int, Tensor]) -> Dense:
        return Dense(coefficients, torch.zeros_like(next(iter(coefficients.values()))[0]))


class DenseDomain:
    """Run a graph on coefficient tensors.

    Args:
        features: The number :math:`d` of inputs.
        limit: The most elements a coefficient tensor may have; larger products stay pending, which allows only linear
            operations on them.
    """

    def __init__(self, features: int, limit: int) -> None:
        self.features, self.limit = features, limit

    def constant(self, tensor: Tensor) -> Dense:
        return Dense.of({0: tensor[None]})

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Dense:
        operands = _as_dense(values)
        zeros = [value.zero for value in operands]
        out: dict[int, Tensor] = {}
        for degree in sorted(set().union(*(value.coefficients for value in operands))):
            size = self.features**degree
            pieces = [
                value.coefficients[degree]
                if degree in value.coefficients
                else value.zero.expand(size, *value.zero.shape)
                for value in operands
            ]
            out[degree] = torch.vmap(function)(*pieces)
        pending: dict[int, list[Pending]] = {}
        for position, value in enumerate(operands):
            for degree, terms in value.pending.items():
                pending.setdefault(degree, []).extend(
                    replace(term, function=_after(function, zeros, position, term.function)) for term in terms
                )
        return Dense(out, function(*zeros), pending)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Dense:
        a, b = _as_dense((left, right))
        if any(degree > 0 for degree in (*a.pending, *b.pending)):
            return self._product_with_pending(function, a, b)
        zero = function(a.zero, b.zero)
        out: dict[int, Tensor] = {}
        pending: dict[int, list[Pending]] = {}
        for i, x in a.coefficients.items():
            for j, y in b.coefficients.items():
                if len(x) * len(y) * zero.numel() > self.limit:
                    pending.setdefault(i + j, []).append(self._postpone(function, i, x, j, y))
                    continue
                every_pair = torch.vmap(torch.vmap(function, (None, 0)), (0, None))
                term = every_pair(x, y).reshape(-1, *zero.shape)
                out[i + j] = out[i + j] + term if i + j in out else term
        return Dense(out, zero, pending)

    def refuse(self, operation: Operation, reason: str) -> Dense:
        raise NotPolynomialError(f"{operation.name} {reason}")

    def _product_with_pending(self, function: Callable[[Tensor, Tensor], Tensor], a: Dense, b: Dense) -> Dense:
        """A product with a constant is a linear map; any other would be larger still."""
        for constant, value, of_value in (
            (a, b, lambda x, y: function(x, y)),
            (b, a, lambda x, y: function(y, x)),
        ):
            if not constant.pending and set(constant.coefficients) == {0}:
                weight = constant.coefficients[0][0]
                return self.linear(lambda y, weight=weight, of_value=of_value: of_value(weight, y), value)
        raise self._too_large(max((*a.pending, *b.pending)) + 1)

    def _postpone(self, function: Callable[[Tensor, Tensor], Tensor], i: int, x: Tensor, j: int, y: Tensor) -> Pending:
        if i == 1:
            return Pending(function, x, y)
        if j == 1:
            return Pending(lambda linear, other: function(other, linear), y, x)
        raise self._too_large(i + j)

    def _too_large(self, degree: int) -> ValueError:
        return ValueError(
            f"the coefficients of degree {degree} in {self.features} inputs need more than the {self.limit:,} numbers "
            f"per tensor that the memory limit allows; raise it (memory=... in Python), or expand a smaller network"
        )


def _as_dense(values: tuple[Value, ...]) -> list[Dense]:
    dense = [value for value in values if isinstance(value, Dense)]
    if len(dense) != len(values):
        raise TypeError("values of another domain cannot be mixed with coefficient tensors")
    return dense


def _after(
    outer: Callable[..., Tensor], zeros: list[Tensor], position: int, inner: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    """A linear function of several operands, of which all but one are zero, after a product."""

    def function(left: Tensor, right: Tensor) -> Tensor:
        return outer(*zeros[:position], inner(left, right), *zeros[position + 1 :])

    return function


def symmetrize(tensor: Tensor, features: int, degree: int) -> Tensor:
    """Average a tensor of shape (d**m, ...) over all orders of its m indices."""
    if degree < 2:
        return tensor
    if degree == 2:  # the same, with less memory
        square = tensor.reshape(features, features, *tensor.shape[1:])
        return (square + square.transpose(0, 1)).mul_(0.5).reshape(tensor.shape)
    key = sorted_key(features, degree, tensor.device)
    total = torch.zeros_like(tensor).index_add_(0, key, tensor)
    count = torch.zeros(len(key), dtype=tensor.dtype, device=tensor.device).index_add_(
        0, key, torch.ones((), dtype=tensor.dtype).expand(len(key))
    )
    mean = total.div_(count.clamp(min=1).reshape(-1, *(1,) * (tensor.ndim - 1)))
    return mean[key]


def sorted_key(features: int, degree: int, device: torch.device) -> Tensor:
    """For every tuple of indices, the position of the same indices in ascending order."""
    grid = torch.arange(features**degree, device=device)
    indices = torch.stack([(grid // features**power) % features for power in range(degree)], dim=1).sort(dim=1).values
    strides = torch.tensor([features ** (degree - 1 - axis) for axis in range(degree)], device=device)
    return (indices * strides).sum(1)


def multiplicities(indices: Tensor) -> Tensor:
    """How many orders the indices of each row have: n! over the factorials of how often each index repeats."""
    degree = indices.shape[1]
    repeats = torch.ones(len(indices), dtype=torch.float64)
    run = torch.ones(len(indices), dtype=torch.float64)
    for column in range(1, degree):
        run = torch.where(indices[:, column] == indices[:, column - 1], run + 1, torch.ones_like(run))
        repeats = repeats * run
    return math.factorial(degree) / repeats
