"""The throughput packing: one feature of thousands of inputs per ciphertext, and a product for each matrix entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pinets.encrypted.backend import Ciphertext, Evaluator
from pinets.encrypted.circuit import Affine, Circuit, Leaf, Tree
from pinets.encrypted.stencil import matrix_of

__all__ = ["Spread", "ThroughputProgram", "one_by_one"]

# Computes the ciphertexts with the given numbers, perhaps in several processes.
Spread = Callable[[Callable[[int], Ciphertext], Sequence[int]], list[Ciphertext]]


def one_by_one(compute: Callable[[int], Ciphertext], numbers: Sequence[int]) -> list[Ciphertext]:
    """Compute ciphertexts in this process."""
    return [compute(number) for number in numbers]


class ThroughputProgram:
    """A circuit for one ciphertext per feature."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit.dense

    def run(
        self, evaluator: Evaluator, inputs: Sequence[Ciphertext], output_scale: float, spread: Spread = one_by_one
    ) -> list[Ciphertext]:
        """Evaluate the circuit: from one ciphertext per feature to one per output, at the given scale."""
        return _Run(self, evaluator, inputs).outputs(output_scale, spread)


class _Run:
    def __init__(self, program: ThroughputProgram, evaluator: Evaluator, inputs: Sequence[Ciphertext]) -> None:
        self.program, self.evaluator = program, evaluator
        self.values = [list(inputs)]
        self.lowered: dict[tuple[int, int], list[Ciphertext]] = {}

    def outputs(self, scale: float, spread: Spread) -> list[Ciphertext]:
        circuit, top = self.program.circuit, self.evaluator.parameters.levels
        for number, tree in enumerate(circuit.trees, 1):
            level = top - circuit.depths[number]
            self.prepare(tree, level)
            self.values.append(spread(partial(self.tree, tree, level), range(circuit.sizes[number])))
            self.lowered.clear()  # frees one ciphertext for each entry of a value
        self.lower(circuit.output, 1)
        return spread(partial(self.affine, circuit.output, 0, scale), range(circuit.output.rows))

    def tree(self, tree: Tree, level: int, unit: int) -> Ciphertext:
        """One entry of a product, at a level."""
        if isinstance(tree, Leaf):
            return self.leaf(tree.factors, level, unit)
        left, right = (self.tree(part, level + 1, unit) for part in (tree.left, tree.right))
        return self.evaluator.multiply(left, right)

    def leaf(self, factors: Sequence[Affine], level: int, unit: int) -> Ciphertext:
        if len(factors) == 1:
            if factors[0].is_free:
                return self.free(factors[0], level, unit)
            return self.affine(factors[0], level, self.evaluator.parameters.scale, unit)
        half = 1 << ((len(factors) - 1).bit_length() - 1)
        left, right = (self.leaf(part, level + 1, unit) for part in (factors[:half], factors[half:]))
        return self.evaluator.multiply(left, right)

    def free(self, factor: Affine, level: int, row: int) -> Ciphertext:
        assert factor.same_as
        out = self.evaluator.lower(self.values[factor.same_as][row], level)
        return self.plus(out, float(factor.constant[row]))

    def affine(self, form: Affine, level: int, scale: float, row: int) -> Ciphertext:
        """One row of an affine map, at a level and a scale."""
        evaluator, total = self.evaluator, None
        for value, matrix in form.terms.items():
            sources = self.at(value, level + 1)
            weight_scale = scale * evaluator.prime(level + 1) / evaluator.scale(sources[0])
            part = evaluator.weighted_sum(sources, matrix_of(matrix)[row].numpy(), weight_scale)
            total = part if total is None else evaluator.add(total, part)
        return self.plus(evaluator.rescale(total), float(form.constant[row]))

    def plus(self, ciphertext: Ciphertext, constant: float) -> Ciphertext:
        if constant == 0:
            return ciphertext
        evaluator = self.evaluator
        plaintext = evaluator.encode(constant, evaluator.level(ciphertext), evaluator.scale(ciphertext))
        return evaluator.add_plain(ciphertext, plaintext)

    def prepare(self, tree: Tree, level: int) -> None:
        """Lower the values that a product needs, before processes fork and each would do it."""
        if not isinstance(tree, Leaf):
            self.prepare(tree.left, level + 1)
            self.prepare(tree.right, level + 1)
        elif not tree.factors[0].is_free:
            self.lower(tree.factors[0], level + 1 + (len(tree.factors) - 1).bit_length())

    def lower(self, form: Affine, level: int) -> None:
        for value in form.terms:
            self.at(value, level)

    def at(self, value: int, level: int) -> list[Ciphertext]:
        """All entries of a value at a level."""
        if self.evaluator.level(self.values[value][0]) == level:
            return self.values[value]
        if (value, level) not in self.lowered:
            self.lowered[value, level] = [self.evaluator.lower(entry, level) for entry in self.values[value]]
        return self.lowered[value, level]
