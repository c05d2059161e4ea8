r"""What is evaluated under encryption: affine maps and products, nothing else.

A circuit has values :math:`v_0` (the input) and :math:`v_1, v_2, \dots`, each the element-wise product of affine maps
of the values before it, and its output is one more affine map. All that is linear between two products is one matrix.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Affine", "Branch", "Circuit", "Leaf", "Product", "Tree"]


@dataclass(frozen=True, eq=False)
class Affine:
    """A sum of matrices times values, and a constant.

    Attributes:
        terms: Matrices of shape (rows, size of the value), by the number of the value.
        constant: A vector of as many rows.
    """

    terms: dict[int, Tensor]
    constant: Tensor

    @property
    def rows(self) -> int:
        return len(self.constant)

    @cached_property
    def same_as(self) -> int | None:
        """The number of the value that this is, unchanged but for the constant; None if it is not that simple."""
        if len(self.terms) != 1:
            return None
        ((value, matrix),) = self.terms.items()
        square = matrix.shape[0] == matrix.shape[1]
        return value if square and torch.equal(matrix, torch.eye(len(matrix), dtype=matrix.dtype)) else None

    @property
    def is_free(self) -> bool:
        """Whether it takes no multiplication: a product as it stands. The input is packed otherwise than products."""
        return bool(self.same_as)

    def __call__(self, values: list[Tensor]) -> Tensor:
        """Its numbers, for a batch of the values."""
        out = self.constant.expand(len(values[0]), -1)
        for value, matrix in self.terms.items():
            out = out + values[value] @ matrix.T
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
    """Factors that depend on the same values, multiplied with each other; ``depth`` is how many levels that takes."""

    factors: tuple[Affine, ...]
    depth: int


@dataclass(frozen=True, eq=False)
class Branch:
    """Two factors of a product, and the levels until it is known."""

    left: Tree
    right: Tree
    depth: int


Tree = Leaf | Branch


@dataclass(frozen=True, eq=False)
class Circuit:
    """A network as products of affine maps.

    Attributes:
        size: Of the input, flattened.
        products: Value 1 on.
        output: Of all values.
    """

    size: int
    products: tuple[Product, ...]
    output: Affine

    def __call__(self, inputs: Tensor) -> Tensor:
        """The output for a batch of flattened inputs, in double precision and without encryption."""
        values = [inputs.double()]
        for product in self.products:
            out = product.factors[0](values)
            for factor in product.factors[1:]:
                out = out * factor(values)
            values.append(out)
        return self.output(values)

    @cached_property
    def sizes(self) -> list[int]:
        """Of all values."""
        return [self.size, *(product.size for product in self.products)]

    @cached_property
    def trees(self) -> list[Tree]:
        """For every product, in which order its factors are multiplied so that the depth is least."""
        depths, trees = [0], []
        for product in self.products:
            tree = _least_depth(product, depths)
            trees.append(tree)
            depths.append(tree.depth)
        return trees

    @cached_property
    def depths(self) -> list[int]:
        """The multiplicative depth of all values: multiplications by matrices and by each other."""
        return [0, *(tree.depth for tree in self.trees)]

    @property
    def depth(self) -> int:
        """The multiplicative depth of the output: for a CCP of order N, 2 + ceil(log2 N)."""
        return _depth(self.output, self.depths)

    @property
    def degree(self) -> int:
        """In the input, by the structure."""
        degrees = [1]
        for product in self.products:
            degrees.append(sum(_degree(factor, degrees) for factor in product.factors))
        return _degree(self.output, degrees)


def _degree(form: Affine, degrees: list[int]) -> int:
    return max((degrees[value] for value in form.terms), default=0)


def _depth(form: Affine, depths: list[int]) -> int:
    below = max((depths[value] for value in form.terms), default=0)
    return below if form.is_free else below + 1


def _least_depth(product: Product, depths: list[int]) -> Tree:
    """Multiply what depends on the same values first (it shares rotations), then always the two shallowest."""
    groups: dict[object, list[Affine]] = {}
    for factor in product.factors:
        # a product as it stands is a group by itself: there is no matrix to stack
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
