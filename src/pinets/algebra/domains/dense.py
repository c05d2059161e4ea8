r"""Coefficient tensors carried through a network.

A value is :math:`\sum_m W^{[m]} z \cdots z` with one tensor for every degree, of shape ``(d**m, *shape)``: its first
axis runs over all ordered :math:`m`-tuples of inputs. Products of values are outer products along that axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value, in_one_argument

__all__ = ["Dense", "DenseDomain", "Pending", "monomials_of", "symmetrize"]

Bilinear = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Pending:
    """The product of a linear value and another one, whose coefficient tensor is too large to form."""

    function: Bilinear
    linear: Tensor  # (d, ...)
    other: Tensor  # (d**(m - 1), ...)


@dataclass(frozen=True)
class Dense(Value):
    """Coefficients by degree; a missing degree is zero."""

    coefficients: dict[int, Tensor]  # the tensors that were formed
    zero: Tensor  # of the value's shape
    pending: dict[int, list[Pending]] = field(default_factory=dict)  # products to be added to the coefficients
    lost: frozenset[int] = frozenset()  # degrees with terms that are neither formed nor pending

    @staticmethod
    def of(coefficients: dict[int, Tensor]) -> Dense:
        return Dense(coefficients, torch.zeros_like(next(iter(coefficients.values()))[0]))

    @property
    def degrees(self) -> set[int]:
        return {*self.coefficients, *self.pending, *self.lost}


class DenseDomain(Domain[Dense]):
    """Run a graph on coefficient tensors.

    Args:
        features: The number :math:`d` of inputs.
        limit: The most elements of a coefficient tensor. A larger product with a linear value stays pending, and can
            only be mapped linearly from then on; other larger products are lost.
    """

    def __init__(self, features: int, limit: int) -> None:
        self.features, self.limit = features, limit

    def constant(self, tensor: Tensor) -> Dense:
        return Dense.of({0: tensor[None]})

    def linear(self, function: Callable[..., Tensor], *values: Dense) -> Dense:
        zeros = [value.zero for value in values]
        out: dict[int, Tensor] = {}
        for degree in sorted(set().union(*(value.coefficients for value in values))):
            size = self.features**degree
            pieces = [
                value.coefficients[degree]
                if degree in value.coefficients
                else value.zero.expand(size, *value.zero.shape)
                for value in values
            ]
            out[degree] = torch.vmap(function)(*pieces)
        pending: dict[int, list[Pending]] = {}
        for position, value in enumerate(values):
            for degree, terms in value.pending.items():
                alone = in_one_argument(function, zeros, position)
                mapped = [replace(term, function=_after(alone, term.function)) for term in terms]
                pending.setdefault(degree, []).extend(mapped)
        return Dense(out, function(*zeros), pending, frozenset().union(*(value.lost for value in values)))

    def product(self, function: Bilinear, left: Dense, right: Dense) -> Dense:
        zero = function(left.zero, right.zero)
        out: dict[int, Tensor] = {}
        pending: dict[int, list[Pending]] = {}
        lost = {
            i + j
            for i in left.degrees
            for j in right.degrees
            if i in left.lost or j in right.lost or (i in left.pending and j > 0) or (j in right.pending and i > 0)
        }
        for i, x in left.coefficients.items():
            for j, y in right.coefficients.items():
                if len(x) * len(y) * zero.numel() <= self.limit:
                    term = torch.vmap(torch.vmap(function, (None, 0)), (0, None))(x, y).reshape(-1, *zero.shape)
                    out[i + j] = out[i + j] + term if i + j in out else term
                elif i == 1:
                    pending.setdefault(i + j, []).append(Pending(function, x, y))
                elif j == 1:
                    pending.setdefault(i + j, []).append(Pending(lambda one, more: function(more, one), y, x))
                else:
                    lost.add(i + j)
        for value, factor, times in ((left, right, function), (right, left, lambda x, y: function(y, x))):
            if 0 in factor.coefficients:  # a constant keeps products pending
                scaled = self.linear(partial(_times, times, factor.coefficients[0][0]), replace(value, coefficients={}))
                for degree, terms in scaled.pending.items():
                    pending.setdefault(degree, []).extend(terms)
        return Dense(out, zero, pending, frozenset(lost))


def _times(function: Bilinear, constant: Tensor, value: Tensor) -> Tensor:
    return function(value, constant)


def _after(outer: Callable[[Tensor], Tensor], inner: Bilinear) -> Bilinear:
    return lambda left, right: outer(inner(left, right))


def symmetrize(tensor: Tensor, features: int, degree: int) -> Tensor:
    """Average a tensor of shape (d**m, ...) over all orders of its m indices."""
    if degree < 2:
        return tensor
    if degree == 2:  # the same, with less memory
        square = tensor.reshape(features, features, *tensor.shape[1:])
        return (square + square.transpose(0, 1)).mul_(0.5).reshape(tensor.shape)
    key = _sorted_key(features, degree)
    total = torch.zeros_like(tensor).index_add_(0, key, tensor)
    count = torch.zeros(len(key), dtype=tensor.dtype).index_add_(0, key, torch.ones_like(key, dtype=tensor.dtype))
    mean = total.div_(count.clamp(min=1).reshape(-1, *(1,) * (tensor.ndim - 1)))
    return mean[key]


def _sorted_key(features: int, degree: int) -> Tensor:
    """For every tuple of indices, the position of the same indices in ascending order."""
    grid = torch.arange(features**degree)
    indices = torch.stack([(grid // features**power) % features for power in range(degree)], dim=1).sort(dim=1).values
    strides = torch.tensor([features ** (degree - 1 - axis) for axis in range(degree)])
    return (indices * strides).sum(1)


def monomials_of(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of all monomials of a symmetric tensor of shape (out, d, ..., d), and their coefficients.

    Returns:
        Ascending indices of shape (monomials, degree), and coefficients of shape (out, monomials).
    """
    _, *sizes = tensor.shape
    degree = len(sizes)
    indices = torch.combinations(torch.arange(sizes[0]), degree, with_replacement=True).reshape(-1, degree)
    columns: tuple[slice | Tensor, ...] = (slice(None), *indices.unbind(1))
    return indices, tensor[columns] * _multiplicities(indices)


def _multiplicities(indices: Tensor) -> Tensor:
    """How many orders the indices of each row have: n! over the factorials of how often each index repeats."""
    degree = indices.shape[1]
    repeats = torch.ones(len(indices), dtype=torch.float64)
    run = torch.ones(len(indices), dtype=torch.float64)
    for column in range(1, degree):
        run = torch.where(indices[:, column] == indices[:, column - 1], run + 1, torch.ones_like(run))
        repeats = repeats * run
    return math.factorial(degree) / repeats
