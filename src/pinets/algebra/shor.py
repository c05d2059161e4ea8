r"""The least value of a quadratic polynomial over a box, from below: Shor's relaxation, by its dual.

For :math:`|e_i| \le 1`, and any :math:`y` with :math:`y_1, \dots, y_n \ge 0` that makes the matrix below positive
semidefinite,

.. math:: c + g^T e + e^T Q e \ge c - \sum_{i=0}^n y_i, \qquad
    \begin{pmatrix} y_0 & g^T / 2 \\ g / 2 & Q + \mathrm{diag}(y) \end{pmatrix} \succeq 0

A good :math:`y` comes from the relaxation itself, whose symbols are vectors of a few dimensions, by projected gradient
descent. Nothing of that has to be exact: that the matrix is positive semidefinite is proven by a Cholesky
factorisation, whose rounding is known (Rump, Verification of positive definiteness, 2006).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.rounding import OURS
from pinets.algebra.domains.zonotope import Zonotope

__all__ = ["Quadratic", "Relaxation", "least_value"]

_DIMENSIONS = 12  # size of the vectors that replace the symbols
_ROUNDS = (10, 50, 240)  # steps of the descent before the bound is computed, and computed again


@dataclass(frozen=True)
class Quadratic:
    r"""The function :math:`c + g^T e + \sum_t \kappa_t (a_t^T e)(b_t^T e) - \sum_t K_t |a_t^T e| |b_t^T e|`."""

    constant: float  # c
    linear: Tensor  # g, of shape (symbols,)
    left: Tensor  # the forms a, of shape (symbols, products)
    right: Tensor  # the forms b
    exact: Tensor  # the coefficients kappa, of shape (products,)
    loose: Tensor  # K, not negative

    @staticmethod
    def below(zonotope: Zonotope, element: int, sign: int = 1) -> Quadratic:
        """A quadratic lower bound of one element of a zonotope; with a sign of -1, of its negative."""
        assert zonotope.generators is not None
        linear = zonotope.generators.flatten(1)[:, element]
        empty = linear.new_zeros(len(linear), 0)
        left, right = (
            torch.cat([empty, *(getattr(part.forms, side) for part in zonotope.products)], 1)
            for side in ("left", "right")
        )
        exact, loose = (
            torch.cat([empty[0], *(getattr(part, kind).flatten(1)[:, element] for part in zonotope.products)])
            for kind in ("exact", "loose")
        )
        center, size, noise, error = (
            getattr(zonotope, name).flatten()[element] for name in ("center", "size", "noise", "error")
        )
        constant = float(sign * center - noise - error - OURS.slack(len(exact), size))
        return Quadratic(constant, sign * linear, left, right, sign * exact, loose)

    @property
    def size(self) -> float:
        """The sum of the largest absolute values of the products."""
        maxima = self.left.abs().sum(0) * self.right.abs().sum(0)
        return float((maxima * (self.exact.abs() + self.loose)).sum())

    def influence(self) -> Tensor:
        """How much every symbol has to do with the products of which only the size is known."""
        a, b = self.left.abs(), self.right.abs()
        return (a * b.sum(0) + b * a.sum(0)) @ self.loose

    def matrix(self) -> Tensor:
        """The matrix of the homogeneous form, with the number 1 as symbol 0; absolute values by their squares."""
        a, b = self.left.abs().sum(0), self.right.abs().sum(0)
        balance = torch.where((a > 0) & (b > 0), b / a, 1.0).clamp(1e-6, 1e6)  # of |uv| <= (t u^2 + v^2 / t) / 2
        weighed = torch.cat(
            [
                self.right * (self.exact / 2) - self.left * (self.loose * balance / 2),
                self.left * (self.exact / 2) - self.right * (self.loose / balance / 2),
            ],
            1,
        )
        square = torch.cat([self.left, self.right], 1) @ weighed.T
        whole = torch.zeros(len(square) + 1, len(square) + 1, dtype=torch.float64)
        whole[1:, 1:] = (square + square.T) / 2
        whole[0, 1:] = whole[1:, 0] = self.linear / 2
        return whole


@dataclass(frozen=True)
class Relaxation:
    """The result of the relaxation."""

    lower: float  # the least value is at least this
    point: Tensor  # where the relaxation suggests the least value to be, of shape (symbols,)
    gaps: Tensor  # how much each symbol contributes to the gap that the relaxation leaves


def least_value(quadratic: Quadratic, enough: float | None = 0.0) -> Relaxation:
    """Bound a quadratic polynomial from below, with more effort while it may help to get above ``enough``.

    Without ``enough``, the bound is as good as all the effort makes it.
    """
    matrix = quadratic.matrix()
    count = len(matrix)
    # the matrix is off by the rounding of its sums
    slack = 4 * OURS.gamma(2 * len(quadratic.exact) + count) * (quadratic.size + float(quadratic.linear.abs().sum()))
    constant = quadratic.constant - slack
    vectors = _start(quadratic.linear)
    step = 2 / matrix.abs().sum(1, keepdim=True).clamp(min=1e-300)
    best = Relaxation(-torch.inf, torch.zeros(count - 1), torch.zeros(count - 1))
    if not matrix.isfinite().all():
        return best
    for last, steps in zip((False, False, True), _ROUNDS, strict=True):
        for _ in range(steps):
            vectors = vectors - step * (matrix @ vectors)
            length = vectors.norm(dim=1, keepdim=True)
            vectors = vectors / torch.cat([length[:1].clamp(min=1e-300), length[1:].clamp(min=1)])
        pull = -(vectors * (matrix @ vectors)).sum(1)
        reached = constant - float(pull.sum())
        weights = (pull / vectors.square().sum(1).clamp(min=1e-9)).clamp(min=0)
        weights[0] = pull[0]
        spare = 0.0 if enough is None else (constant - float(weights.sum()) - enough) / count
        hopeless = enough is not None and reached <= enough
        if spare > 0:  # one factorisation tells whether all of what there is to spare suffices
            bound = constant + _proven(matrix, weights + 0.9 * spare)
            hopeless = False
        elif hopeless or last:
            least = float(torch.linalg.eigvalsh(matrix + torch.diag(weights))[0])
            bound = constant + _proven(matrix, weights + max(0.0, -least))
        else:
            continue
        point = vectors[1:] @ vectors[0]
        if bound >= best.lower:
            best = Relaxation(bound, point, weights[1:] * (1 - point.square()))
        if hopeless or (enough is not None and best.lower > enough):
            break
    return best


def _start(linear: Tensor) -> Tensor:
    """Vectors near the corner where the linear part is least."""
    generator = torch.Generator().manual_seed(0)
    vectors = 0.1 * torch.randn(len(linear) + 1, _DIMENSIONS, generator=generator, dtype=torch.float64)
    vectors[1:, 0] -= linear.sign()
    vectors[0, 0] += 1
    return vectors / vectors.norm(dim=1, keepdim=True)


def _proven(matrix: Tensor, weights: Tensor) -> float:
    """The bound for weights that are large enough, up to rounding; minus infinity if they are not."""
    count = len(matrix)
    scale = float(matrix.abs().sum(1).max()) + 1e-300
    for spare in (1e-13, 1e-10, 1e-7):
        shifted = weights + spare * scale
        whole = matrix + torch.diag(shifted)
        if not torch.linalg.cholesky_ex(whole).info:
            # Rump: the least eigenvalue is then at least -gamma / (1 - gamma) of the trace; the diagonal was rounded
            error = 4 * OURS.gamma(count + 2) * float(whole.diagonal().abs().sum() + shifted.abs().sum()) * count
            return -float(shifted.sum()) - error
    return -torch.inf
