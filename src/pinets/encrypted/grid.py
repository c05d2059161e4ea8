r"""The grid packing: one image per handful of ciphertexts, laid out as channels x height x width.

A convolution needs a rotation for each offset of its kernel and each distance of two channels. Average pooling needs
no mask and no level, since layouts are chosen so that the numbers to be summed lie in different ciphertexts, or a
rotation apart:

- Product 1: the client sends the windows that its convolution sees. Its results are split by the place :math:`\psi`
  that they take in the cells of the *second* pooling, one ciphertext each; in each, the four places
  :math:`\varphi` in the cells of the first pooling lie one behind the other, so that two rotations sum them and leave
  four copies.
- Product 2: one ciphertext for each place in the cells of its pooling, whose sum is the pooled map.
- Later products: pooling by rotations leaves every second row and column, and the channels of the next product fill
  the gaps.

Weights are divided by the cells' area, so that the means are sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product as pairs

import numpy as np
import torch

from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.diagonals import Coefficients, Diagonals, Integers, Layout, make_diagonals
from pinets.encrypted.errors import PlanError
from pinets.encrypted.latency import power_of_two
from pinets.encrypted.plan import GridLayout
from pinets.encrypted.stencil import Stencil

__all__ = ["GridMap", "choose_grid", "grid_maps", "pack_grid"]


@dataclass(eq=False)
class GridMap:
    """An affine map of a value, and what follows it.

    Both factors of the product are in the same ciphertext, ``rotation`` apart; if that is 0, in different ciphertexts,
    the first factor in the first half of them. It is None for the output, which is no product.
    """

    diagonals: Diagonals
    constant: Vector  # for each ciphertext of the result and each slot of its period
    rotation: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()  # the ciphertexts of the product that are summed
    sums: tuple[int, ...] = ()  # the rotations whose sums pool the product, in order


def pack_grid(inputs: Vector, layout: GridLayout, slots: int) -> Vector:
    """The windows of a flattened image, one row for each ciphertext.

    >>> image = GridLayout((1, 2, 2), phases=1, stride=2, window=2, margin=0, rows=1, columns=1)
    >>> pack_grid(np.arange(4.0), image, 8)
    array([[0., 1., 2., 3., 0., 1., 2., 3.]])
    """
    channels, height, width = layout.image
    cell = layout.phases * layout.stride
    margin = layout.margin
    side = layout.window + cell * max(layout.rows, layout.columns) + margin + max(height, width)
    framed = np.zeros((channels, side, side))
    framed[:, margin : margin + height, margin : margin + width] = inputs.reshape(layout.image)
    packed = np.zeros((layout.phases**2, layout.features, layout.rows, layout.columns))
    steps = [cell * np.arange(count) for count in (layout.rows, layout.columns)]
    for phase, (down, across) in enumerate(pairs(range(layout.phases), repeat=2)):
        places = pairs(range(channels), range(layout.window), range(layout.window))
        for feature, (channel, row, column) in enumerate(places):
            rows, columns = steps[0] + layout.stride * down + row, steps[1] + layout.stride * across + column
            packed[phase, feature] = framed[channel][np.ix_(rows, columns)]
    flat = packed.reshape(len(packed), -1)
    return np.tile(flat, slots // flat.shape[1])


def choose_grid(circuit: Circuit, slots: int) -> GridLayout:
    """The layout of the input; refuses circuits that are not a chain of products of two convolutions."""
    stencils = _stencils(circuit)
    first = stencils[0]
    if first.pool != 1:
        raise PlanError("the grid packing takes images that are not pooled before the first convolution")
    stride, phases, *later = [*(stencil.pool for stencil in stencils[1:]), 1, 1]
    for pool in (stride, *later):  # these poolings sum by rotations, the second one does not
        if pool & (pool - 1):
            raise PlanError(f"the grid packing pools over cells whose side is a power of two, got {pool}")
    channels, height, width = first.image
    cell = stride * phases
    if height % cell or width % cell:
        raise PlanError(f"images of {height} x {width} are not whole cells of {cell} x {cell}")
    margin = first.radius[0]
    rows, columns = (power_of_two(side // cell) for side in (height, width))
    layout = GridLayout((channels, height, width), phases, stride, stride + 2 * margin, margin, rows, columns)
    if layout.period > slots:
        raise PlanError(
            f"the windows of the first convolution take {layout.period} of {slots} slots: a ring of "
            f"{2 * layout.period} would hold them"
        )
    return layout


def grid_maps(circuit: Circuit, layout: GridLayout, slots: int) -> list[GridMap]:
    """The maps of a circuit in order; the last gives the output."""
    stencils = _stencils(circuit)
    pools = [*(stencil.pool for stencil in stencils[1:]), 1]
    maps: list[GridMap] = []
    value: Layout | None = None
    gaps = 1
    for number, (stencil, pool) in enumerate(zip(stencils, pools, strict=True)):
        constant = torch.cat([factor.constant for factor in circuit.products[number].factors]).numpy()
        scaled = Stencil(stencil.weight / stencil.pool**2, (stencil.image[0], *stencil.grid))
        if number == 0:
            placed = _split_twice(scaled, layout, slots)
        elif number == 1:
            placed = _split(scaled, layout, slots)
        else:
            placed = _fill_gaps(scaled, layout, slots, gaps, pool)
            gaps *= pool
        if value is None:
            source, into, operands = partial(_windows, scaled, placed.rows, layout), layout.period, layout.phases**2
        else:
            source, into, operands = partial(_taps, scaled, placed.rows, value), value.period, len(value.places)
        diagonals = make_diagonals(source, len(placed.rows), placed.rows.shape[1], into, operands)
        known = np.where(placed.rows >= 0, constant[placed.rows], 0.0)
        maps.append(GridMap(diagonals, known, placed.rotation, placed.groups, placed.sums))
        value = placed.value
    assert value is not None
    output = circuit.output
    ((_, matrix),) = output.terms.items()
    assert isinstance(matrix, torch.Tensor)
    height = power_of_two(output.rows)
    head = make_diagonals(partial(_entries_of, matrix.numpy(), value), 1, height, value.period, len(value.places))
    constant = np.zeros((1, height))
    constant[0, : output.rows] = output.constant.numpy()
    return [*maps, GridMap(head, constant)]


def _stencils(circuit: Circuit) -> list[Stencil]:
    """The factors of each product as one stencil, one factor's channels after the other's."""
    found = []
    for number, product in enumerate(circuit.products):
        maps = [factor.terms.get(number) for factor in product.factors]
        if len(maps) != 2 or any(len(factor.terms) != 1 for factor in product.factors):
            raise PlanError("the grid packing takes chains of products of two factors each")
        first, second = maps
        if not isinstance(first, Stencil) or not isinstance(second, Stencil):
            raise PlanError(
                f"the grid packing takes products of convolutions, and a factor of product {number + 1} is none"
            )
        if first.pool != second.pool:
            raise PlanError(f"the factors of product {number + 1} are pooled differently")
        radius = max(first.radius[0], second.radius[0])  # both kernels get the size of the larger one
        weights = [torch.nn.functional.pad(one.weight, (radius - one.radius[0],) * 4) for one in (first, second)]
        found.append(Stencil(torch.cat(weights), first.image, first.pool))
    if circuit.depth != 2 * len(found) + 1:
        raise PlanError("the grid packing takes products of convolutions, and a factor is the value before itself")
    if not found or list(circuit.output.terms) != [len(found)]:
        raise PlanError("the grid packing takes chains of products, whose output depends on the last")
    return found


@dataclass(frozen=True, eq=False)
class _Placed:
    """The layout of a product's factors, and of the product once it is pooled.

    ``rows`` holds for every ciphertext and slot the row of the stacked factors; the rest is as in :class:`GridMap`.
    """

    rows: Integers
    rotation: int
    groups: tuple[tuple[int, ...], ...]
    sums: tuple[int, ...]
    value: Layout


def _place(channels: int, block: int, slots: int) -> tuple[int, bool]:
    """How many channels of a factor fit a ciphertext, and whether both factors do; a channel takes a block."""
    padded = power_of_two(channels)
    if block > slots:
        raise PlanError(f"one channel takes {block} of {slots} slots: a ring of {2 * block} would hold it")
    if 2 * padded * block <= slots:
        return padded, True
    return min(padded, slots // block), False


def _entries(channels: Integers, rows: Integers, columns: Integers, shape: tuple[int, int, int]) -> Integers:
    """The numbers of entries of a map; -1 outside of it. The three arrays are broadcast."""
    channels, rows, columns = np.broadcast_arrays(channels, rows, columns)
    inside = (channels >= 0) & (channels < shape[0])
    for at, size in ((rows, shape[1]), (columns, shape[2])):
        inside = inside & (at >= 0) & (at < size)
    return np.where(inside, (channels * shape[1] + rows) * shape[2] + columns, -1)


def _factors(entries: Integers, size: int, both: bool) -> Integers:
    """The rows of both factors, in the same ciphertexts one behind the other, or in different ones."""
    second = np.where(entries >= 0, entries + size, -1)
    return np.concatenate([entries, second], axis=1 if both else 0)


def _split_twice(stencil: Stencil, layout: GridLayout, slots: int) -> _Placed:
    """The first product: a ciphertext for each place in the second pooling's cells, the first's inside."""
    channels, (height, width) = len(stencil.weight) // 2, stencil.grid
    inner, outer = layout.stride, layout.phases
    block = layout.rows * layout.columns
    held, both = _place(channels, inner**2 * block, slots)
    cell = inner * outer
    rows, columns = cell * np.arange(layout.rows)[:, None], cell * np.arange(layout.columns)
    factors, values = [], []
    for down, across in pairs(range(outer), repeat=2):
        for first in range(0, channels, held):
            numbers = (first + np.arange(held))[:, None, None]
            parts = [
                _entries(numbers, rows + inner * down + y, columns + inner * across + x, (channels, height, width))
                for y, x in pairs(range(inner), repeat=2)
            ]
            factors.append(np.concatenate([part.ravel() for part in parts]))
            coarse = (channels, height // inner, width // inner)
            values.append(_entries(numbers, rows // inner + down, columns // inner + across, coarse).ravel())
    stacked = _factors(np.stack(factors), channels * height * width, both)
    area = held * block
    sums = tuple(area << power for power in range((inner**2).bit_length() - 1))
    single = tuple((number,) for number in range(len(factors)))
    return _Placed(stacked, inner**2 * area if both else 0, single, sums, Layout(np.stack(values)))


def _split(stencil: Stencil, layout: GridLayout, slots: int) -> _Placed:
    """The second product: a ciphertext for each place in its pooling's cells."""
    channels, (height, width) = len(stencil.weight) // 2, stencil.grid
    outer, block = layout.phases, layout.rows * layout.columns
    held, both = _place(channels, block, slots)
    rows, columns = np.arange(layout.rows)[:, None], np.arange(layout.columns)
    chunks = range(0, channels, held)
    factors, values = [], []
    for first in chunks:
        numbers = (first + np.arange(held))[:, None, None]
        for down, across in pairs(range(outer), repeat=2):
            fine = (channels, height, width)
            factors.append(_entries(numbers, outer * rows + down, outer * columns + across, fine).ravel())
        values.append(_entries(numbers, rows, columns, (channels, height // outer, width // outer)).ravel())
    stacked = _factors(np.stack(factors), channels * height * width, both)
    groups = tuple(tuple(range(at * outer**2, (at + 1) * outer**2)) for at in range(len(chunks)))
    return _Placed(stacked, held * block if both else 0, groups, (), Layout(np.stack(values)))


def _fill_gaps(stencil: Stencil, layout: GridLayout, slots: int, gaps: int, pool: int) -> _Placed:
    """A later product: its map has gaps, which further channels fill."""
    channels, (height, width) = len(stencil.weight) // 2, stencil.grid
    block = layout.rows * layout.columns
    if layout.rows % gaps or layout.columns % gaps:
        raise PlanError(f"a map of {height} x {width} after {gaps}-fold pooling is too small for the grid packing")
    held, both = _place(-(-channels // gaps**2), block, slots)
    y, x = np.arange(layout.rows)[:, None], np.arange(layout.columns)
    inside = (y % gaps) * gaps + x % gaps  # which of the channels that share a block
    factors, values = [], []
    for first in range(0, -(-channels // gaps**2), held):
        numbers = (first + np.arange(held))[:, None, None] * gaps**2 + inside
        factors.append(_entries(numbers, y // gaps, x // gaps, (channels, height, width)).ravel())
        wide = gaps * pool
        valid = np.where((y % wide < gaps) & (x % wide < gaps), numbers, -1)
        values.append(_entries(valid, y // wide, x // wide, (channels, height // pool, width // pool)).ravel())
    stacked = _factors(np.stack(factors), channels * height * width, both)
    steps = range(pool.bit_length() - 1)
    sums = tuple(gaps * across << power for across in (1, layout.columns) for power in steps)
    single = tuple((number,) for number in range(len(factors)))
    return _Placed(stacked, held * block if both else 0, single, sums, Layout(np.stack(values)))


def _windows(stencil: Stencil, rows: Integers, layout: GridLayout, result: int) -> Iterator[Coefficients]:
    """The coefficients of the first convolution, whose operand is made of windows."""
    weight = stencil.weight.numpy()
    target, (channel, y, x) = _targets(rows[result], stencil)
    cell, stride = layout.phases * layout.stride, layout.stride
    phase = (y % cell // stride) * layout.phases + x % cell // stride
    block = layout.rows * layout.columns
    at = (y // cell) * layout.columns + x // cell
    into = np.arange(weight.shape[1])
    for down, across in pairs(range(weight.shape[2]), range(weight.shape[3])):
        inside = (y % stride + down) * layout.window + x % stride + across
        feature = into * layout.window**2 + inside[:, None]
        slot = feature * block + at[:, None]
        targets, ciphertexts = (np.broadcast_to(each[:, None], slot.shape) for each in (target, phase))
        yield Coefficients(targets, ciphertexts, slot, weight[channel, :, down, across])


def _taps(stencil: Stencil, rows: Integers, value: Layout, result: int) -> Iterator[Coefficients]:
    """The coefficients of a convolution."""
    weight, (channels, height, width) = stencil.weight.numpy(), stencil.image
    ciphertexts, slots = value.where(channels * height * width)
    target, (channel, y, x) = _targets(rows[result], stencil)
    into = np.arange(channels) * height * width
    for down, across in pairs(range(weight.shape[2]), range(weight.shape[3])):
        row, column = y + down - stencil.radius[0], x + across - stencil.radius[1]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        if not inside.any():
            continue
        entry = into + (row * width + column)[inside, None]
        targets = np.broadcast_to(target[inside, None], entry.shape)
        yield Coefficients(targets, ciphertexts[entry], slots[entry], weight[channel[inside], :, down, across])


def _entries_of(matrix: Vector, value: Layout, result: int) -> Iterator[Coefficients]:
    """The coefficients of a matrix; slot t of the result is row t."""
    targets = np.arange(len(matrix))[:, None]
    yield Coefficients(*np.broadcast_arrays(targets, *value.where(matrix.shape[1]), matrix))


def _targets(rows: Integers, stencil: Stencil) -> tuple[Integers, Sequence[Integers]]:
    """The slots that hold a row, and its channel, height and width."""
    target = np.flatnonzero(rows >= 0)
    return target, np.unravel_index(rows[target], (len(stencil.weight), *stencil.grid))
