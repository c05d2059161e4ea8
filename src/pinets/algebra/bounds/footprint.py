"""How a linear function uses its operands, found out by trying: the functions themselves are opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.algebra.graph import Signed

__all__ = ["Footprint", "count_terms", "footprints", "magnitude_of"]

_SAME = 4e-15  # relative difference that rounding makes; the weight of what it could hide is no more than rounding
_STRIDES = (0.6180339887498949, 0.41421356237309515)  # two irrational numbers: no two positions are close in both


@dataclass(frozen=True)
class Footprint:
    """How a function uses one operand.

    Attributes:
        magnitude: The function with absolute coefficients, of this operand alone.
        weight: For every output, the sum of the absolute coefficients.
        picks: Whether every output takes at most one element of the operand, as views, slices and scales do.
    """

    magnitude: Callable[[Tensor], Tensor]
    weight: Tensor
    picks: bool


def magnitude_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with the absolute values of its coefficients."""
    return function.magnitude if isinstance(function, Signed) else function


def footprints(function: Callable[..., Tensor], operands: Sequence[Tensor]) -> list[Footprint]:
    """How a linear function uses each of its operands, of which only the shapes matter."""
    magnitude = magnitude_of(function)
    zeros = [torch.zeros(operand.shape, dtype=torch.float64) for operand in operands]

    def alone(position: int) -> Callable[[Tensor], Tensor]:
        return lambda x: magnitude(*zeros[:position], x, *zeros[position + 1 :])

    return [_footprint(alone(position), operand.shape) for position, operand in enumerate(operands)]


def _footprint(magnitude: Callable[[Tensor], Tensor], shape: torch.Size) -> Footprint:
    weight = magnitude(torch.ones(shape, dtype=torch.float64))
    picks = True
    for stride in _STRIDES:
        values = 1 + (torch.arange(shape.numel(), dtype=torch.float64) * stride).frac().reshape(shape)
        # Cauchy-Schwarz: equal only where all that an output takes has the same value, and values differ
        mean, square = magnitude(values), magnitude(values.square())
        picks = picks and bool((square * weight - mean.square() <= _SAME * mean.square()).all())
    return Footprint(magnitude, weight, picks)


def count_terms(function: Callable[..., Tensor], uses: Sequence[Footprint], operands: Sequence[Tensor]) -> float:
    """How many terms a sum has at most in a linear function; 0 if nothing is computed, only moved."""
    if isinstance(function, Signed) and function.terms is not None:
        return float(function.terms(*(torch.ones(operand.shape, dtype=torch.float64) for operand in operands)).max())
    if not all(use.picks for use in uses):
        return sum(operand.numel() for operand in operands)
    total = torch.stack([use.weight.broadcast_to(uses[0].weight.shape) for use in uses])
    moved = bool(((total == 0) | (total == 1)).all()) and bool((total.sum(0) <= 1).all())
    return 0 if moved else len(uses)
