"""Convolutions as linear maps of a circuit: their kernels are kept, since their matrices would not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["LinearMap", "Stencil", "apply", "magnitudes", "matrix_by_columns", "matrix_of", "recognise", "squares"]

_PROBES = 2  # random inputs on which a recognised map must agree
_SAME = 1e-9  # relative to the largest entry
_CHUNK = 256  # columns of a matrix that are computed at once


@dataclass(frozen=True, eq=False)
class Stencil:
    """A convolution with zero padding that keeps the size, after average pooling over cells of ``pool`` x ``pool``."""

    weight: Tensor  # the kernel, (channels out, channels in, odd, odd)
    image: tuple[int, int, int]  # channels, height and width of the map that comes in
    pool: int = 1

    def __post_init__(self) -> None:
        channels, height, width = self.image
        if self.weight.ndim != 4 or self.weight.shape[1] != channels or not self.radius[0] == self.radius[1]:
            raise ValueError(f"a kernel of shape {tuple(self.weight.shape)} does not fit {channels} channels")
        if self.weight.shape[2] % 2 == 0 or self.pool < 1 or height % self.pool or width % self.pool:
            raise ValueError(f"cells of {self.pool} do not divide {height} x {width}, or the kernel's side is even")

    @property
    def radius(self) -> tuple[int, int]:
        return self.weight.shape[2] // 2, self.weight.shape[3] // 2

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the map that comes out."""
        return self.image[1] // self.pool, self.image[2] // self.pool

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix: rows and columns."""
        height, width = self.grid
        return len(self.weight) * height * width, self.image[0] * self.image[1] * self.image[2]

    @cached_property
    def is_identity(self) -> bool:
        out, into, *sides = self.weight.shape
        eye = torch.eye(out, into, dtype=self.weight.dtype).reshape(out, into, 1, 1)
        return self.pool == 1 and out == into and sides == [1, 1] and torch.equal(self.weight, eye)

    def __call__(self, values: Tensor) -> Tensor:
        """The result for a batch of flattened values."""
        maps = values.reshape(-1, *self.image)
        if self.pool > 1:
            maps = F.avg_pool2d(maps, self.pool)
        return F.conv2d(maps, self.weight, padding=self.radius).flatten(1)

    def dense(self) -> Tensor:
        """The matrix."""
        return matrix_by_columns(self, self.shape[1])


LinearMap: TypeAlias = Tensor | Stencil


def matrix_of(linear: LinearMap) -> Tensor:
    """The matrix of a map."""
    return linear.dense() if isinstance(linear, Stencil) else linear


def apply(linear: LinearMap, values: Tensor) -> Tensor:
    """The result of a map for a batch of flattened values."""
    return linear(values) if isinstance(linear, Stencil) else values @ linear.T


def magnitudes(linear: LinearMap) -> LinearMap:
    """The map with the absolute values of its coefficients."""
    return replace(linear, weight=linear.weight.abs()) if isinstance(linear, Stencil) else linear.abs()


def squares(linear: LinearMap) -> LinearMap:
    """The map with the squares of its coefficients."""
    if isinstance(linear, Stencil):  # each coefficient is an entry of the kernel over the cell's area
        return replace(linear, weight=linear.weight.square() / linear.pool**2)
    return linear.square()


def matrix_by_columns(function: Callable[[Tensor], Tensor], size: int) -> Tensor:
    """The matrix of a linear function of a batch of vectors."""
    columns = []
    for start in range(0, size, _CHUNK):
        units = torch.zeros(min(_CHUNK, size - start), size, dtype=torch.float64)
        units[torch.arange(len(units)), start + torch.arange(len(units))] = 1.0
        columns.append(function(units))
    return torch.cat(columns).T.contiguous()


def recognise(function: Callable[[Tensor], Tensor], into: torch.Size, out: torch.Size) -> Stencil | None:
    """A linear function of maps as a stencil, if it is one; else None.

    The kernel is read off the answers to a cell of ones in each channel, and the stencil must then agree
    with the function on random maps.

    Args:
        function: A linear function of a batch of flattened maps that gives flattened maps.
        into: The shape of a map that comes in, with a batch axis of 1.
        out: The shape of a map that comes out, with a batch axis of 1.
    """
    if len(into) != 4 or len(out) != 4 or into[0] != 1 or out[0] != 1 or into[2] % out[2] or into[3] % out[3]:
        return None
    pool = into[2] // out[2]
    if into[3] // out[3] != pool:
        return None
    cells = [(out[2] // 2, out[3] // 2)]
    if min(out[2:]) < 3:  # the middle does not see both sides
        cells = [(row, column) for row in range(out[2]) for column in range(out[3])]
    reach = max(out[2:]) - 1
    weight = torch.zeros(out[1], into[1], 2 * reach + 1, 2 * reach + 1, dtype=torch.float64)
    for row, column in cells:
        ones = torch.zeros(into[1], *into[1:], dtype=torch.float64)
        rows, columns = slice(pool * row, pool * (row + 1)), slice(pool * column, pool * (column + 1))
        ones[torch.arange(into[1]), torch.arange(into[1]), rows, columns] = 1.0
        answers = function(ones.flatten(1)).reshape(into[1], *out[1:]).transpose(0, 1).flip(2, 3)
        # the result at a row sees the cell at an offset of the cell's row less its own
        top, left = reach + row - out[2] + 1, reach + column - out[3] + 1
        weight[:, :, top : top + out[2], left : left + out[3]] = answers
    seen = weight.abs().amax((0, 1)).nonzero()
    radius = int((seen - reach).abs().max()) if len(seen) else 0
    kernel = weight[:, :, reach - radius : reach + radius + 1, reach - radius : reach + radius + 1].contiguous()
    stencil = Stencil(kernel, (into[1], into[2], into[3]), pool)
    probes = torch.randn(_PROBES, into.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = function(probes)
    close = torch.allclose(stencil(probes), expected, rtol=_SAME, atol=_SAME * float(expected.abs().max()))
    return stencil if close else None
