"""Finding the largest monomials of coefficient tensors, also of those never formed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.dense import Pending, multiplicities, symmetrize

__all__ = ["Monomial", "largest_of_pending", "largest_of_tensor", "merge", "write_out"]

_LARGEST_FORM = 2**27  # numbers in the bilinear form of a pending product


@dataclass(frozen=True)
class Monomial:
    """``coefficient * z[i] * z[j] * ...`` of one output, the indices in ascending order (repeated for powers)."""

    output: int
    indices: tuple[int, ...]
    coefficient: float

    def __str__(self) -> str:
        return f"{self.coefficient:+.4g} {factors(self.indices)}"


def factors(indices: tuple[int, ...], *, latex: bool = False) -> str:
    """The variables of a monomial: ``z0^2 z3``.

    >>> factors((0, 0, 3))
    'z0^2 z3'
    """
    powers = [(index, len(list(group))) for index, group in itertools.groupby(indices)]
    if latex:
        return " ".join(f"z_{{{index}}}" + (f"^{{{power}}}" if power > 1 else "") for index, power in powers)
    return " ".join(f"z{index}" + (f"^{power}" if power > 1 else "") for index, power in powers)


def write_out(constant: float, monomials: list[Monomial], *, digits: int, more: bool = False) -> str:
    """A sum of monomials in LaTeX, with dots where there are more."""
    text = f"{constant:.{digits}g}" if constant else ""
    for monomial in monomials:
        if monomial.coefficient == 0:
            continue
        sign = "-" if monomial.coefficient < 0 else "+"
        size = f"{abs(monomial.coefficient):.{digits}g}"
        term = factors(monomial.indices, latex=True)
        term = term if size == "1" else f"{size} {term}"
        text = f"{text} {sign} {term}" if text else (f"-{term}" if sign == "-" else term)
    if more:
        return rf"{text} + \cdots" if text else r"\cdots"
    return text or "0"


def merge(candidates: list[list[Monomial]], k: int) -> list[Monomial]:
    """The ``k`` largest of several lists, without those that are zero."""
    there = [monomial for monomial in itertools.chain(*candidates) if monomial.coefficient]
    return sorted(there, key=lambda monomial: -abs(monomial.coefficient))[:k]


def largest_of_tensor(tensor: Tensor, k: int | None, output: int | None) -> list[Monomial]:
    """The ``k`` largest monomials (all that are not zero, if None) of a symmetric tensor of shape (out, d, ..., d)."""
    outputs, *sizes = tensor.shape
    degree, features = len(sizes), sizes[0] if sizes else 1
    indices = torch.combinations(torch.arange(features), degree, with_replacement=True)
    columns: tuple[slice | Tensor, ...] = (slice(None), *indices.unbind(1))
    values = tensor[columns] * multiplicities(indices)
    if output is not None:
        values = torch.where(torch.arange(outputs)[:, None] == output, values, torch.zeros(()).to(values))
    flat = values.flatten()
    if k is None:
        chosen = flat.nonzero().flatten()
    else:
        chosen = flat.abs().topk(min(k, flat.numel() if output is None else len(indices))).indices
    rows, positions = chosen // len(indices), chosen % len(indices)
    return [
        Monomial(row, tuple(index), value)
        for row, index, value in zip(rows.tolist(), indices[positions].tolist(), flat[chosen].tolist(), strict=True)
    ]


def largest_of_pending(terms: list[Pending], features: int, degree: int, k: int) -> list[Monomial]:
    r"""The ``k`` largest monomials of a sum of products that are too large to form.

    A product is a bilinear form of a linear value :math:`L` and another :math:`R` of degree :math:`n - 1`, symmetric in
    its indices. The symmetric coefficient of :math:`z_{i_1} \cdots z_{i_n}` is the mean over which index is taken by
    :math:`L`. Slices of these coefficients are a few matrix products each, of which only the largest entries are kept.
    """
    slices = {2: _quadratic_slices, 3: _cubic_slices}.get(degree)
    if slices is None:
        count = math.comb(features + degree - 1, degree)
        raise ValueError(
            f"{count:,} monomials of degree {degree} in {features} inputs are too many to search; "
            f"products that do not fit into memory are searched up to degree 3"
        )
    largest = _Largest(k)
    for parts in zip(*(slices(*_bilinear(term, features, degree)) for term in terms), strict=True):
        origin = parts[0][0]
        values = parts[0][1] if len(parts) == 1 else torch.stack([part for _, part in parts]).sum(0)
        largest.add(values, origin)
    return largest.monomials()


def _quadratic_slices(form: Tensor, other: Tensor) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """For every i the monomials z_i z_j with j >= i, as (out, 1, d - i)."""
    for i in range(form.shape[1]):
        values = form[:, i] @ other[i:].T + form[:, i:] @ other[i]
        values[:, 0] *= 0.5  # z_i^2 has one order, z_i z_j two
        yield (i, i), values[:, None]


def _cubic_slices(form: Tensor, other: Tensor) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """For every j the monomials z_i z_j z_l with i <= j <= l, as (out, j + 1, d - j)."""
    outputs, features, _ = form.shape
    for j in range(features):
        values = form[:, : j + 1] @ other[j, j:].T  # L takes i
        values.baddbmm_(other[: j + 1, j].expand(outputs, -1, -1), form[:, j:].transpose(1, 2))  # L takes l
        by_middle = torch.bmm(other[: j + 1, j:], form[:, j].T.expand(j + 1, -1, -1))  # L takes j
        values += by_middle.permute(2, 0, 1)
        values *= 2  # six orders, over the three places of L
        values[:, j] *= 0.5  # i = j: three orders
        values[:, :, 0] *= 0.5  # j = l
        values[:, j, 0] *= 2 / 3  # all the same: one order
        yield (0, j, j), values


def _bilinear(term: Pending, features: int, degree: int) -> tuple[Tensor, Tensor]:
    """L contracted with the form, of shape (out, d, k), and R of shape (d, ..., d, k)."""
    linear, other = term.linear, term.other
    left, right = linear[0].numel(), other[0].numel()
    outputs = term.function(linear[0], other[0]).numel()
    if left * right * outputs > _LARGEST_FORM:
        raise ValueError(
            f"a product of states of {left} and {right} numbers is too large to search for monomials "
            f"(at most {_LARGEST_FORM:,} entries in its bilinear form)"
        )
    units_left = torch.eye(left, dtype=torch.float64).reshape(left, *linear.shape[1:])
    units_right = torch.eye(right, dtype=torch.float64).reshape(right, *other.shape[1:])
    form = torch.vmap(torch.vmap(term.function, (None, 0)), (0, None))(units_left, units_right)
    form = form.reshape(left, right, outputs)
    contracted = torch.einsum("dl,lro->odr", linear.reshape(features, left), form)
    symmetric = symmetrize(other.reshape(-1, right), features, degree - 1)
    return contracted, symmetric.reshape(*(features,) * (degree - 1), right)


class _Largest:
    """The largest monomials seen so far."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.values = torch.empty(0, dtype=torch.float64)
        self.keys: list[tuple[int, tuple[int, ...]]] = []

    def add(self, values: Tensor, origin: tuple[int, ...]) -> None:
        """Consider one slice, of shape (out, rows, columns): see :func:`_cubic_slices`."""
        threshold = self.values.abs().min().item() if len(self.values) == self.k else 0.0
        low, high = values.aminmax()
        if max(-low.item(), high.item()) <= threshold:
            return
        sizes = values.flatten().abs()
        candidates = (sizes > threshold).nonzero().flatten()
        candidates = candidates[sizes[candidates].topk(min(self.k, len(candidates))).indices]
        positions = torch.stack(torch.unravel_index(candidates, values.shape), dim=1).tolist()
        first, *middle, last = origin
        found = [(output, (first + row, *middle, last + column)) for output, row, column in positions]
        merged = torch.cat([self.values, values.flatten()[candidates]])
        order = merged.abs().topk(min(self.k, len(merged))).indices
        keys = self.keys + found
        self.values, self.keys = merged[order], [keys[position] for position in order.tolist()]

    def monomials(self) -> list[Monomial]:
        return [
            Monomial(output, indices, value)
            for value, (output, indices) in zip(self.values.tolist(), self.keys, strict=True)
        ]
