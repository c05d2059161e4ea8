"""How a linear function uses its operands, found by probing, since functions are opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.domains.base import Signed, in_one_argument

__all__ = ["Footprint", "count_terms", "footprints", "magnitude_of"]

_LARGE = 2.0**500  # a power of two, by which products are exact; no coefficient that matters is smaller by as much


@dataclass(frozen=True)
class Footprint:
    """How a function uses one operand."""

    magnitude: Callable[[Tensor], Tensor]  # the function with absolute coefficients, of this operand alone
    weight: Tensor  # for every output, the sum of the absolute coefficients
    picks: bool  # whether every output takes at most one element of the operand, as views, slices and scales do
    elementwise: bool  # whether that is the element at its own place, in the order of memory


def magnitude_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with the absolute values of its coefficients."""
    return function.magnitude if isinstance(function, Signed) else function


def footprints(function: Callable[..., Tensor], operands: Sequence[Tensor]) -> list[Footprint]:
    """How a linear function uses each of its operands, of which only the shapes matter."""
    magnitude = magnitude_of(function)
    zeros = [torch.zeros(operand.shape, dtype=torch.float64) for operand in operands]
    return [
        _footprint(in_one_argument(magnitude, zeros, position), operand.shape)
        for position, operand in enumerate(operands)
    ]


def _footprint(magnitude: Callable[[Tensor], Tensor], shape: torch.Size) -> Footprint:
    weight = magnitude(torch.ones(shape, dtype=torch.float64))
    picks = _picks(magnitude, weight, shape)
    return Footprint(magnitude, weight, picks, picks and _keeps_places(magnitude, weight, shape))


def _keeps_places(magnitude: Callable[[Tensor], Tensor], weight: Tensor, shape: torch.Size) -> bool:
    """Whether a function that picks elements picks each for its own place: marked by powers of two, they stay so."""
    if weight.numel() != shape.numel():
        return False
    for digit in range((shape.numel() - 1).bit_length()):
        marks = 1.0 + (torch.arange(shape.numel()) >> digit) % 2
        out = magnitude(marks.double().reshape(shape)).flatten()
        if not torch.equal(out, weight.flatten() * marks):
            return False
    return True


def _picks(magnitude: Callable[[Tensor], Tensor], weight: Tensor, shape: torch.Size) -> bool:
    """Whether every output takes at most one element.

    Any two positions differ in a binary digit. With one where it is 0 and something large where it is 1, and the other
    way round, an output that takes both gives neither its weight nor that times the large number: each of the two is
    once the large one, so that the other cannot hide it by rounding.
    """
    positions = torch.arange(shape.numel()).reshape(shape)
    for digit in range((shape.numel() - 1).bit_length()):
        is_one = (positions >> digit) % 2 == 1
        for large in (is_one, ~is_one):
            out = magnitude(torch.ones(shape, dtype=torch.float64).masked_fill(large, _LARGE))
            exact = (out == weight) | (out == weight * _LARGE)
            if not (exact & out.isfinite()).all():
                return False
    return True


def count_terms(function: Callable[..., Tensor], uses: Sequence[Footprint], operands: Sequence[Tensor]) -> float:
    """The largest number of terms in a sum of a linear function; 0 if elements are only moved."""
    if isinstance(function, Signed) and function.terms is not None:
        return float(function.terms(*(torch.ones(operand.shape, dtype=torch.float64) for operand in operands)).max())
    if not all(use.picks for use in uses):
        return sum(operand.numel() for operand in operands)
    total = torch.stack([use.weight.broadcast_to(uses[0].weight.shape) for use in uses])
    moved = bool(((total == 0) | (total == 1)).all()) and bool((total.sum(0) <= 1).all())
    return 0 if moved else len(uses)
