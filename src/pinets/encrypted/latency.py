r"""The latency packing: one input per ciphertext, matrices as diagonals, rotations by baby and giant steps.

A value of size :math:`k` repeats through the ciphertext: slot :math:`t` holds entry :math:`t \bmod p`. A matrix with
:math:`m` rows (a power of two) is a sum over rotations,

.. math:: y = \sum_{r < R} d_r * \mathrm{rot}_r(x), \qquad \text{then} \quad y + \mathrm{rot}_m(y) + \dots

where the diagonals :math:`d_r` hold the entries of the matrix so that the last sum completes every row. The result
repeats with period :math:`m`, and the next map can start from it.

The client repeats the input with an odd multiple of :math:`2^a` as the period, which is *not* a power of two. Each
repetition then meets the rows shifted by :math:`2^a`, so :math:`R = 2^a` rotations serve :math:`2^a` rows for each
repetition: all slots do useful work, and the stacked factors of a product cost little more than one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pinets.encrypted.backend import Ciphertext, Evaluator, Vector
from pinets.encrypted.circuit import Affine, Circuit, Leaf, Tree
from pinets.encrypted.diagonals import Diagonals
from pinets.encrypted.errors import PlanError
from pinets.encrypted.plan import InputLayout
from pinets.encrypted.stencil import matrix_of

__all__ = ["LatencyProgram", "choose_layout", "pack", "power_of_two", "unpack"]


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least ``size``.

    >>> [power_of_two(size) for size in (1, 5, 8)]
    [1, 8, 8]
    """
    return 1 << (size - 1).bit_length()


def pack(inputs: Vector, layout: InputLayout, slots: int) -> Vector:
    """Repeat an input through the slots.

    >>> pack(np.array([1.0, 2.0]), InputLayout(period=3, copies=2, shift=1), 8)
    array([1., 2., 0., 1., 2., 0., 0., 0.])
    """
    packed = np.zeros(slots)
    for copy in range(layout.copies):
        packed[copy * layout.period : copy * layout.period + len(inputs)] = inputs
    return packed


def unpack(slots: Vector, rows: int) -> Vector:
    """The output: the mean of its repetitions over the slots, which averages out noise.

    >>> unpack(np.array([9.0, 9.0, 1.0, 2.0, 1.2, 2.0, 0.8, 2.0]), 2)
    array([1., 2.])
    """
    repeated = slots.reshape(-1, power_of_two(rows))
    # the first slots are the noisiest
    return repeated[1:].mean(0)[:rows] if len(repeated) > 1 else repeated[0, :rows]


def choose_layout(circuit: Circuit, slots: int) -> InputLayout:
    """The layout with the fewest rotations for the tallest matrix that is applied to the input."""
    if max(power_of_two(size) for size in [*circuit.sizes, circuit.output.rows]) > slots:
        raise PlanError(
            f"values of {max(circuit.sizes)} entries do not fit {slots} slots: a ring of "
            f"{2 * power_of_two(max(circuit.sizes))} would hold them"
        )
    stacks = [leaf.factors for tree in circuit.trees for leaf in _leaves(tree)] + [(circuit.output,)]
    heights = [power_of_two(stack[0].rows) * power_of_two(len(stack)) for stack in stacks if 0 in stack[0].terms]
    tallest = min(slots, max(heights, default=1))
    shift = 1
    while True:
        period = shift * (math.ceil(circuit.size / shift) | 1)  # an odd multiple
        copies = max(1, tallest // shift)
        if copies * period <= slots:
            return InputLayout(period, copies, shift)
        if shift >= slots:
            raise PlanError(f"an input of {circuit.size} numbers does not fit {slots} slots")
        shift *= 2


def _leaves(tree: Tree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else [*_leaves(tree.left), *_leaves(tree.right)]


def _diagonals(matrix: Vector, value: int, rows: int, layout: InputLayout | None, slots: int) -> Diagonals:
    """The diagonals of a matrix for the input (with its layout) or for a product (without one)."""
    if layout is None:
        period = power_of_two(matrix.shape[1])
        rotations, windows = min(rows, period), max(1, period // rows)
        source = np.arange(slots)
    else:
        period = layout.period
        rotations, windows = min(rows, layout.shift), slots // rows
        source = np.arange(max(1, rows // layout.shift) * period)  # the copies that the rows use
    padded = np.zeros((rows, period))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    baby = 1 << math.ceil(math.log2(rotations) / 2)
    giants: list[dict[tuple[int, int], Vector]] = [{} for _ in range(math.ceil(rotations / baby))]
    for rotation in range(rotations):
        giant, step = divmod(rotation, baby)
        slot = (source - rotation) % slots  # meets the source after the rotation
        diagonal = np.zeros(slots)
        diagonal[slot] = padded[slot % rows, source % period]
        if diagonal.any():
            giants[giant][value, step] = np.roll(diagonal, giant * baby)  # the giant rotation follows the product
    if not any(giants):
        giants[0][value, 0] = np.zeros(slots)
    folds = tuple(rows << power for power in range(windows.bit_length() - 1))  # complete every row
    return Diagonals(baby, [giants], folds)


@dataclass(eq=False)
class _Map:
    """An affine map: the diagonals for each value, and the constant for all slots."""

    diagonals: dict[int, Diagonals]
    constant: Vector


class LatencyProgram:
    """A circuit for one input per ciphertext; the arguments are those of ``make_program``."""

    def __init__(self, circuit: Circuit, layout: InputLayout, slots: int, *, keep: bool = True) -> None:
        self.circuit, self.layout, self.slots, self.keep = circuit.dense, layout, slots, keep
        self.rows = circuit.output.rows
        self._maps: dict[int, _Map] = {}

    def run(self, evaluator: Evaluator, ciphertexts: Sequence[Ciphertext], output_scale: float) -> Ciphertext:
        """Evaluate the circuit. The output gets its own scale, since it must fit the base prime alone."""
        (ciphertext,) = ciphertexts
        return _Run(self, evaluator, ciphertext).output(output_scale)

    def map_of(self, factors: tuple[Affine, ...]) -> _Map:
        """The stacked factors of a product, padded with factors of one to a power of two."""
        key = id(factors[0])
        if key not in self._maps:
            rows = power_of_two(factors[0].rows)
            height = rows * power_of_two(len(factors))
            constant = np.ones(height)
            matrices: dict[int, Vector] = {}
            for position, factor in enumerate(factors):
                place = slice(position * rows, position * rows + factor.rows)
                constant[position * rows : (position + 1) * rows] = 0.0
                constant[place] = factor.constant.numpy()
                for value, matrix in factor.terms.items():
                    stacked = matrices.setdefault(value, np.zeros((height, matrix.shape[1])))
                    stacked[place] = matrix_of(matrix).numpy()
            diagonals = {
                value: _diagonals(matrix, value, height, self.layout if value == 0 else None, self.slots)
                for value, matrix in matrices.items()
            }
            self._maps[key] = _Map(diagonals, np.tile(constant, self.slots // height))
        return self._maps[key]


class _Run:
    """One evaluation, with the values known so far and their rotations."""

    def __init__(self, program: LatencyProgram, evaluator: Evaluator, ciphertext: Ciphertext) -> None:
        self.program, self.evaluator = program, evaluator
        self.values = [ciphertext]
        self.rotated: dict[tuple[int, int], list[Ciphertext]] = {}  # by value and level, for steps 0, 1, ...
        self.top = evaluator.parameters.levels

    def output(self, scale: float) -> Ciphertext:
        circuit = self.program.circuit
        for number, tree in enumerate(circuit.trees, 1):
            self.values.append(self.tree(tree, self.top - circuit.depths[number]))
        return self.affine((circuit.output,), 0, scale)

    def tree(self, tree: Tree, level: int) -> Ciphertext:
        """A product at a level. Its factors are computed at the lowest level that allows, where they are cheapest."""
        if isinstance(tree, Leaf):
            return self.leaf(tree.factors, level)
        return self.evaluator.multiply(self.tree(tree.left, level + 1), self.tree(tree.right, level + 1))

    def leaf(self, factors: tuple[Affine, ...], level: int) -> Ciphertext:
        if len(factors) == 1 and factors[0].is_free:
            return self.free(factors[0], level)
        rows, count = power_of_two(factors[0].rows), power_of_two(len(factors))
        if rows * count > self.program.slots:
            half = count // 2
            return self.evaluator.multiply(self.leaf(factors[:half], level + 1), self.leaf(factors[half:], level + 1))
        folds = count.bit_length() - 1
        out = self.affine(factors, level + folds, self.evaluator.parameters.scale)
        while count > 1:  # the upper half of the stack times the lower half
            count //= 2
            out = self.evaluator.multiply(out, self.evaluator.rotate(out, rows * count))
        return out

    def free(self, factor: Affine, level: int) -> Ciphertext:
        value = factor.same_as
        assert value
        out = self.evaluator.lower(self.values[value], level)
        if not factor.constant.any():
            return out
        padded = np.zeros(power_of_two(factor.rows))
        padded[: factor.rows] = factor.constant.numpy()
        constant = np.tile(padded, self.program.slots // len(padded))
        return self.evaluator.add_plain(out, self.evaluator.encode(constant, level, self.evaluator.scale(out)))

    def affine(self, factors: tuple[Affine, ...], level: int, scale: float) -> Ciphertext:
        """The stacked factors at a level and a scale; they repeat with the height of the stack."""
        evaluator, mapped = self.evaluator, self.program.map_of(factors)
        total: Ciphertext | None = None
        for value, diagonals in mapped.diagonals.items():
            weight_scale = scale * evaluator.prime(level + 1) / evaluator.scale(self.values[value])
            rotated = partial(self.rotation, level + 1)
            part = diagonals.apply(evaluator, rotated, level + 1, weight_scale, keep=self.program.keep)
            total = part if total is None else evaluator.add(total, part)
        out = evaluator.rescale(total)
        return evaluator.add_plain(out, evaluator.encode(mapped.constant, level, evaluator.scale(out)))

    def rotation(self, level: int, value: int, step: int) -> Ciphertext:
        """A value rotated by a baby step, computed from the step before (one key serves all) or a higher level."""
        evaluator = self.evaluator
        known = self.rotated.setdefault((value, level), [evaluator.lower(self.values[value], level)])
        while len(known) <= step:
            higher = next(
                (
                    found[len(known)]
                    for (other, at), found in self.rotated.items()
                    if other == value and at > level and len(found) > len(known)
                ),
                None,
            )
            known.append(evaluator.rotate(known[-1], 1) if higher is None else evaluator.lower(higher, level))
        return known[step]
