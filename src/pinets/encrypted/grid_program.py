"""The evaluation of a circuit in the grid packing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pinets.encrypted.backend import Ciphertext, Evaluator
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.diagonals import Rotation, baby_steps
from pinets.encrypted.grid import GridMap, grid_maps
from pinets.encrypted.plan import GridLayout

__all__ = ["GridProgram"]


class GridProgram:
    """A circuit for one image per handful of ciphertexts; the arguments are those of ``make_program``."""

    def __init__(self, circuit: Circuit, layout: GridLayout, slots: int, *, keep: bool = True) -> None:
        self.slots, self.keep, self.rows = slots, keep, circuit.output.rows
        self.maps = grid_maps(circuit, layout, slots)
        keys: set[int] = set()
        for mapped in self.maps:
            keys.update(step for step in (*mapped.diagonals.folds, *mapped.sums, mapped.rotation) if step)
            if any(len(sums) > 1 for sums in mapped.diagonals.sums):
                keys.add(mapped.diagonals.giant)
        self.steps: list[dict[int, dict[int, Rotation]]] = [
            {operand: baby_steps(needed, keys, slots) for operand, needed in sorted(mapped.diagonals.babies.items())}
            for mapped in self.maps
        ]

    def run(self, evaluator: Evaluator, ciphertexts: Sequence[Ciphertext], output_scale: float) -> Ciphertext:
        """Evaluate the circuit. The output gets its own scale, since it must fit the base prime alone."""
        values = list(ciphertexts)
        for number, mapped in enumerate(self.maps):
            last = mapped is self.maps[-1]
            # maps at the end are applied at the lowest levels
            level = 2 * (len(self.maps) - number) - 1
            scale = output_scale if last else evaluator.parameters.scale
            values = _Affine(self, evaluator, number, values, level).results(scale)
            if not last:
                values = self._multiplied(evaluator, mapped, values)
        (output,) = values
        return output

    @property
    def alive(self) -> int:
        """The largest number of ciphertexts at once."""
        counts = [sum(map(len, mapped.diagonals.babies.values())) + len(mapped.constant) for mapped in self.maps]
        return max(counts) + 2

    def _multiplied(self, evaluator: Evaluator, mapped: GridMap, factors: list[Ciphertext]) -> list[Ciphertext]:
        """The products of the factors, pooled."""
        if mapped.rotation:
            products = [evaluator.multiply(one, evaluator.rotate(one, mapped.rotation)) for one in factors]
        else:
            half = len(factors) // 2
            products = [evaluator.multiply(*pair) for pair in zip(factors[:half], factors[half:], strict=True)]
        pooled = []
        for group in mapped.groups:
            total = products[group[0]]
            for other in group[1:]:
                total = evaluator.add(total, products[other])
            for step in mapped.sums:
                total = evaluator.add(evaluator.rotate(total, step), total)
            pooled.append(total)
        return pooled


@dataclass(eq=False)
class _Affine:
    """One affine map of the values at a level, with the rotations of the values so far."""

    program: GridProgram
    evaluator: Evaluator
    number: int
    values: list[Ciphertext]
    level: int
    rotated: dict[tuple[int, int], Ciphertext] = field(default_factory=dict)  # by operand and step

    def results(self, scale: float) -> list[Ciphertext]:
        """The results; rescaling gives them the scale."""
        evaluator, program, mapped = self.evaluator, self.program, self.program.maps[self.number]
        weight_scale = scale * evaluator.prime(self.level) / evaluator.scale(self.values[0])
        out = []
        for result, constant in enumerate(mapped.constant):
            linear = mapped.diagonals.apply(
                evaluator, self.rotation, self.level, weight_scale, result=result, keep=program.keep
            )
            total = evaluator.rescale(linear)
            tiled = np.tile(constant, program.slots // len(constant))
            plaintext = evaluator.encode(tiled, self.level - 1, evaluator.scale(total))
            out.append(evaluator.add_plain(total, plaintext))
        return out

    def rotation(self, operand: int, step: int) -> Ciphertext:
        """A value rotated by a baby step."""
        key = (operand, step)
        if key not in self.rotated:
            if step == 0:
                self.rotated[key] = self.evaluator.lower(self.values[operand], self.level)
            else:
                way = self.program.steps[self.number][operand][step]
                self.rotated[key] = self.evaluator.rotate(self.rotation(operand, way.start), way.step)
        return self.rotated[key]
