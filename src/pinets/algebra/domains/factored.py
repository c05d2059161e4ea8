r"""Sums of products of linear forms carried through a network.

The terms of degree :math:`m` of a value are :math:`\sum_t w_t \prod_{a=1}^m u_{ta}^T z` with a few terms :math:`t`. A
CCP has one for each unit and choice of gates, which fits into memory when the coefficient tensors do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value, in_one_argument

__all__ = ["Factored", "FactoredDomain", "TooManyTermsError"]


class TooManyTermsError(Exception):
    """The sum of products has more terms than fit into memory."""


@dataclass(frozen=True)
class Factored(Value):
    """For every degree m the forms, of shape (terms, m, d), and the weights, one for each term in the value's shape.

    A degree without terms is left out.
    """

    terms: dict[int, tuple[Tensor, Tensor]]
    zero: Tensor


class FactoredDomain(Domain[Factored]):
    """Run a graph on sums of products of linear forms, for inputs of a shape, with at most so many numbers a tensor."""

    def __init__(self, shape: torch.Size, limit: int) -> None:
        self.shape, self.limit = shape, limit

    def variable(self) -> Factored:
        """The input itself: every element is a form of its own."""
        identity = torch.eye(self.shape.numel(), dtype=torch.float64)
        weights = identity.reshape(-1, *self.shape)
        return Factored({1: (identity[:, None], weights)}, torch.zeros(self.shape, dtype=torch.float64))

    def constant(self, tensor: Tensor) -> Factored:
        no_forms = torch.zeros(1, 0, self.shape.numel(), dtype=torch.float64)
        return Factored({0: (no_forms, tensor[None])}, torch.zeros_like(tensor))

    def linear(self, function: Callable[..., Tensor], *values: Factored) -> Factored:
        zeros = [value.zero for value in values]
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for position, value in enumerate(values):
            alone = in_one_argument(function, zeros, position)
            for degree, (forms, weights) in value.terms.items():
                found.setdefault(degree, []).append((forms, torch.vmap(alone)(weights)))
        return self._collected(found, function(*zeros))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Factored, right: Factored) -> Factored:
        zero = function(left.zero, right.zero)
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for i, (x, v) in left.terms.items():
            for j, (y, w) in right.terms.items():
                if len(v) * len(w) * zero.numel() > self.limit:
                    raise TooManyTermsError
                weights = torch.vmap(torch.vmap(function, (None, 0)), (0, None))(v, w)
                rows, columns = weights.reshape(len(v), len(w), -1).any(2).nonzero().T
                if len(rows):
                    forms = torch.cat([x[rows], y[columns]], dim=1)
                    found.setdefault(i + j, []).append((forms, weights[rows, columns]))
        return self._collected(found, zero)

    def _collected(self, found: dict[int, list[tuple[Tensor, Tensor]]], zero: Tensor) -> Factored:
        terms = {}
        for degree, parts in found.items():
            forms = torch.cat([form for form, _ in parts])
            weights = torch.cat([weight for _, weight in parts])
            if degree == 1 and zero.numel() < len(weights):  # one form for each element is shorter
                matrix = weights.reshape(len(weights), -1).T @ forms[:, 0]
                forms = matrix[:, None]
                weights = torch.eye(zero.numel(), dtype=torch.float64).reshape(-1, *zero.shape)
            if max(forms.numel(), weights.numel()) > self.limit:
                raise TooManyTermsError
            kept = weights.reshape(len(weights), -1).any(1)
            if kept.any():
                terms[degree] = (forms[kept], weights[kept])
        return Factored(terms, zero)
