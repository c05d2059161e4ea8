r"""Circuits: networks written as affine maps and element-wise products, which is all that CKKS can evaluate.

A circuit has values :math:`v_0` (the input) and :math:`v_1, v_2, \dots`. Each value is the element-wise product of
affine maps of the values before it; the output is one more affine map. Everything linear between two products is one
matrix.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pinets.encrypted.container import Container
from pinets.encrypted.errors import FileError, PlanError
from pinets.encrypted.stencil import LinearMap, Stencil, apply, matrix_of

__all__ = [
    "Affine",
    "Branch",
    "Circuit",
    "Leaf",
    "Product",
    "Tree",
    "circuit_from_container",
    "circuit_to_container",
]

_LARGEST = 2**27  # entries of all matrices that replace stencils: a gigabyte


@dataclass(frozen=True, eq=False)
class Affine:
    """A sum of linear maps of values, and a constant."""

    terms: dict[int, LinearMap]  # matrices (rows, size of the value), or stencils, by the number of the value
    constant: Tensor

    @property
    def rows(self) -> int:
        return len(self.constant)

    @cached_property
    def same_as(self) -> int | None:
        """The value v if the map is v plus a constant, else None."""
        if len(self.terms) != 1:
            return None
        ((value, matrix),) = self.terms.items()
        if isinstance(matrix, Stencil):
            return value if matrix.is_identity else None
        square = matrix.shape[0] == matrix.shape[1]
        return value if square and torch.equal(matrix, torch.eye(len(matrix), dtype=matrix.dtype)) else None

    @property
    def is_free(self) -> bool:
        """Whether the map needs no multiplication: a product plus a constant. (The input has another layout.)"""
        return bool(self.same_as)

    def __call__(self, values: list[Tensor]) -> Tensor:
        """The result for a batch of the values."""
        out = self.constant.expand(len(values[0]), -1)
        for value, matrix in self.terms.items():
            out = out + apply(matrix, values[value])
        return out


@dataclass(frozen=True, eq=False)
class Product:
    """The element-wise product of affine maps of the same number of rows."""

    factors: tuple[Affine, ...]

    @property
    def size(self) -> int:
        return self.factors[0].rows


@dataclass(frozen=True, eq=False)
class Leaf:
    """The product of factors that depend on the same values; ``depth`` is the level at which it is known."""

    factors: tuple[Affine, ...]
    depth: int


@dataclass(frozen=True, eq=False)
class Branch:
    """The product of two subtrees."""

    left: Tree
    right: Tree
    depth: int


Tree = Leaf | Branch


@dataclass(frozen=True, eq=False)
class Circuit:
    """A network as products of affine maps.

    Attributes:
        size: The number of entries of the flattened input.
        products: The values from 1 on.
        output: The affine map that gives the output.
    """

    size: int
    products: tuple[Product, ...]
    output: Affine

    def __call__(self, inputs: Tensor) -> Tensor:
        """The output for a batch of flattened inputs, in double precision and without encryption."""
        return self.output(self.values(inputs))

    def values(self, inputs: Tensor) -> list[Tensor]:
        """All values for a batch of flattened inputs; the first is the input."""
        values = [inputs.double()]
        for product in self.products:
            out = product.factors[0](values)
            for factor in product.factors[1:]:
                out = out * factor(values)
            values.append(out)
        return values

    def with_check(self, weights: Sequence[Sequence[float]]) -> Circuit:
        """The circuit with further outputs that are weighted sums of its outputs; they reveal an overflow."""
        check = torch.tensor(weights, dtype=torch.float64)
        matrices = {value: matrix_of(linear) for value, linear in self.output.terms.items()}
        terms: dict[int, LinearMap] = {value: torch.cat([one, check @ one]) for value, one in matrices.items()}
        constant = torch.cat([self.output.constant, check @ self.output.constant])
        return Circuit(self.size, self.products, Affine(terms, constant))

    @property
    def forms(self) -> list[Affine]:
        """All affine maps, the output's last."""
        return [*(factor for product in self.products for factor in product.factors), self.output]

    @property
    def stencils(self) -> list[Stencil]:
        return [linear for form in self.forms for linear in form.terms.values() if isinstance(linear, Stencil)]

    @property
    def work(self) -> int:
        """The multiplications of one evaluation in the clear."""
        return sum(_work(linear) for form in self.forms for linear in form.terms.values())

    @cached_property
    def dense(self) -> Circuit:
        """The circuit with matrices in place of stencils."""
        if not self.stencils:
            return self
        entries = sum(math.prod(stencil.shape) for stencil in self.stencils)
        if entries > _LARGEST:
            raise PlanError(f"the convolutions as matrices have {entries} entries, at most {_LARGEST} are possible")
        products = tuple(Product(tuple(map(_dense, product.factors))) for product in self.products)
        return Circuit(self.size, products, _dense(self.output))

    @cached_property
    def sizes(self) -> list[int]:
        """The number of entries of each value."""
        return [self.size, *(product.size for product in self.products)]

    @cached_property
    def trees(self) -> list[Tree]:
        """For every product, the order of multiplications with the least depth."""
        depths, trees = [0], []
        for product in self.products:
            tree = _least_depth(product, depths)
            trees.append(tree)
            depths.append(tree.depth)
        return trees

    @cached_property
    def depths(self) -> list[int]:
        """The multiplicative depth of each value; products with matrices count as well."""
        return [0, *(tree.depth for tree in self.trees)]

    @property
    def depth(self) -> int:
        """The multiplicative depth of the output: for a CCP of order N, 2 + ceil(log2 N)."""
        return 1 + max((self.depths[value] for value in self.output.terms), default=0)

    @property
    def degree(self) -> int:
        """The degree in the input, by structure."""
        degrees = [1]
        for product in self.products:
            degrees.append(sum(_degree(factor, degrees) for factor in product.factors))
        return _degree(self.output, degrees)


def _dense(form: Affine) -> Affine:
    return Affine({value: matrix_of(linear) for value, linear in form.terms.items()}, form.constant)


def _work(linear: LinearMap) -> int:
    return math.prod((*linear.weight.shape, *linear.grid)) if isinstance(linear, Stencil) else linear.numel()


def _degree(form: Affine, degrees: list[int]) -> int:
    return max((degrees[value] for value in form.terms), default=0)


def _depth(form: Affine, depths: list[int]) -> int:
    below = max((depths[value] for value in form.terms), default=0)
    return below if form.is_free else below + 1


def _least_depth(product: Product, depths: list[int]) -> Tree:
    """Multiply factors of the same values first, since they share rotations; then always the two shallowest."""
    groups: dict[object, list[Affine]] = {}
    for factor in product.factors:
        # a free factor is a group by itself: it has no matrix to stack
        key = id(factor) if factor.is_free else frozenset(factor.terms)
        groups.setdefault(key, []).append(factor)
    heap: list[tuple[int, int, Tree]] = []
    for order, group in enumerate(groups.values()):
        depth = _depth(group[0], depths) + (len(group) - 1).bit_length()
        heap.append((depth, order, Leaf(tuple(group), depth)))
    heapq.heapify(heap)
    count = len(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        depth = max(first[0], second[0]) + 1
        heapq.heappush(heap, (depth, count, Branch(first[2], second[2], depth)))
        count += 1
    return heap[0][2]


def circuit_to_container(circuit: Circuit, plan: str) -> Container:
    """Serialise a circuit. The container holds the weights, and belongs to the server."""
    parts: dict[str, bytes] = {}

    def store(tensor: Tensor) -> str:
        name = str(len(parts))
        parts[name] = tensor.contiguous().numpy().astype("<f8").tobytes()
        return name

    def described(form: Affine) -> dict[str, Any]:
        terms = [[value, *stored(linear)] for value, linear in form.terms.items()]
        return {"terms": terms, "constant": store(form.constant)}

    def stored(linear: LinearMap) -> list[Any]:
        if isinstance(linear, Stencil):
            return [store(linear.weight), list(linear.weight.shape), list(linear.image), linear.pool]
        return [store(linear), list(linear.shape)]

    facts = {
        "size": circuit.size,
        "products": [[described(factor) for factor in product.factors] for product in circuit.products],
        "output": described(circuit.output),
    }
    return Container("circuit", plan, "", parts, facts)


def circuit_from_container(container: Container, source: object) -> Circuit:
    """Read a circuit; errors name the source."""

    def restored(name: str, *shape: int) -> Tensor:
        return torch.from_numpy(np.frombuffer(container.parts[name], "<f8").astype(np.float64)).reshape(shape or (-1,))

    def linear(weight: Tensor, image: Sequence[int] | None = None, pool: int = 1) -> LinearMap:
        if image is None:
            return weight
        channels, height, width = image
        return Stencil(weight, (channels, height, width), pool)

    def form(described: dict[str, Any]) -> Affine:
        terms = {value: linear(restored(name, *shape), *rest) for value, name, shape, *rest in described["terms"]}
        return Affine(terms, restored(described["constant"]))

    facts = container.facts
    try:
        products = tuple(Product(tuple(form(factor) for factor in factors)) for factors in facts["products"])
        circuit = Circuit(facts["size"], products, form(facts["output"]))
        _require_consistent(circuit)
    except (ValueError, KeyError, IndexError, TypeError, RuntimeError) as error:
        raise FileError(f"{source} holds no valid circuit, though its checksum is right: {error}") from error
    return circuit


def _require_consistent(circuit: Circuit) -> None:
    """Raise a ValueError unless all maps fit together. Nothing is computed, so a wrong size costs no memory."""
    if type(circuit.size) is not int or circuit.size < 1:
        raise ValueError(f"the size must be a whole number from 1 on, got {circuit.size!r}")
    sizes = [circuit.size]
    for product in (*circuit.products, Product((circuit.output,))):
        rows = product.size
        for factor in product.factors:
            if factor.rows != rows or rows < 1 or not factor.constant.isfinite().all():
                raise ValueError(f"a factor of value {len(sizes)} has no {rows} finite constants")
            if not factor.terms:
                raise ValueError(f"a factor of value {len(sizes)} depends on nothing")
            for value, matrix in factor.terms.items():
                if type(value) is not int or not 0 <= value < len(sizes):
                    raise ValueError(f"value {len(sizes)} depends on value {value!r}")
                entries = matrix.weight if isinstance(matrix, Stencil) else matrix
                if tuple(matrix.shape) != (rows, sizes[value]) or not entries.isfinite().all():
                    raise ValueError(f"a matrix of value {len(sizes)} is not a finite one of {rows} x {sizes[value]}")
        sizes.append(rows)
