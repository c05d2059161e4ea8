"""Compile a certified network into a circuit: fold everything linear into matrices, so that only products remain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from pinets.algebra.domains.base import Domain, Operation, Value
from pinets.algebra.domains.degree import Violation, each_once
from pinets.algebra.graph import TraceError
from pinets.algebra.traced import Traced, as_traced
from pinets.encrypted.circuit import Affine, Circuit, Product
from pinets.encrypted.errors import NotCompilableError
from pinets.encrypted.stencil import LinearMap, matrix_by_columns, recognise

__all__ = ["compile_network"]

_LARGEST = 2**27  # entries of one matrix, a gigabyte
_INSTEAD = {
    "max_pool": "average pooling",
    "norm": "batch norm, which is affine at inference",
    "softmax": "the scores themselves: the class of the highest is the same",
}


def compile_network(model: nn.Module | Traced, example: Tensor) -> Circuit:
    """Compile a network into a circuit of affine maps and products.

    Batch norms, biases, convolutions, pooling and everything else that is linear between two products become one
    matrix, or one stencil if a convolution that keeps the size is all that it is, perhaps after average pooling. A
    state that is added to its own product, as in CCP, becomes a factor: :math:`u x + x = (u + 1) x`.

    Args:
        model: A network that certifies as a polynomial, or a traced one. It is not changed.
        example: One input, with a batch axis of 1; only its shape matters.

    Example:
        >>> from pinets import CCP
        >>> circuit = compile_network(CCP(6, 2, rank=3, order=4), torch.zeros(1, 6))
        >>> circuit.depth, [len(product.factors) for product in circuit.products]
        (4, [4])
    """
    if example.shape[:1] != (1,):
        raise ValueError(f"the example must be one input with a batch axis of 1, got shape {tuple(example.shape)}")
    try:
        traced = as_traced(model, example)
    except TraceError as error:
        raise NotCompilableError(_what_is_in_the_way(error.violations)) from error
    if not traced.certificate.polynomial:
        raise NotCompilableError(_what_is_in_the_way(traced.certificate.violations))
    domain = _CircuitDomain()
    outputs = traced.graph.run(domain, [_unit(0, example.shape)], dtype=torch.float64)
    if len(outputs) != 1:
        raise NotCompilableError(f"the network must give one tensor, got {len(outputs)}")
    if not isinstance(outputs[0], _Form) or not outputs[0].terms:
        raise NotCompilableError("the output does not depend on the input: there is nothing to evaluate")
    return _simplify(example.numel(), domain.products, outputs[0].output())


@dataclass(frozen=True, eq=False)
class _Lazy:
    """A linear function of one value, composed of the network's own operations; its matrix is made when needed."""

    function: Callable[[Tensor], Tensor]
    into: torch.Size
    out: torch.Size

    def __call__(self, values: Tensor) -> Tensor:
        """The results for a batch of flattened values."""
        results = torch.vmap(self.function)(values.reshape(-1, *self.into))
        return results.reshape(len(results), -1)  # also of results that are single numbers

    @cached_property
    def answer(self) -> Tensor:
        """The result for a random value: linear maps that give the same are the same."""
        return self(self.probe)

    @cached_property
    def probe(self) -> Tensor:
        return torch.randn(1, self.into.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    @property
    def is_unit(self) -> bool:
        return torch.equal(self.answer, self.probe)

    @cached_property
    def made(self) -> LinearMap:
        """A stencil, or a matrix."""
        return recognise(self, self.into, self.out) or self.matrix

    @cached_property
    def matrix(self) -> Tensor:
        if self.into.numel() * self.out.numel() > _LARGEST:
            raise NotCompilableError(
                f"a map of {self.out.numel()} values of {self.into.numel()} is too large for encrypted inference: at "
                f"most {_LARGEST} entries of a matrix; use fewer channels, larger strides or smaller images, or "
                "convolutions that keep the size, with average pooling before them"
            )
        return matrix_by_columns(self, self.into.numel())


@dataclass(frozen=True, eq=False)
class _Form(Value):
    """A tensor of affine forms: a linear function of each value, and the constant."""

    terms: dict[int, _Lazy]
    constant: Tensor

    def affine(self) -> Affine:
        """The map as a factor."""
        return Affine({value: lazy.made for value, lazy in self.terms.items()}, self.constant.flatten().clone())

    def output(self) -> Affine:
        """The map as the output, which is a matrix always."""
        return Affine({value: lazy.matrix for value, lazy in self.terms.items()}, self.constant.flatten().clone())


def _unit(value: int, shape: torch.Size) -> _Form:
    """A value itself."""
    return _Form({value: _Lazy(lambda x: x, shape, shape)}, torch.zeros(shape, dtype=torch.float64))


class _CircuitDomain(Domain[_Form]):
    """Runs a graph on affine forms; the product of two of them becomes a new value."""

    def __init__(self) -> None:
        self.products: list[tuple[_Form, _Form]] = []

    def constant(self, tensor: Tensor) -> _Form:
        return _Form({}, tensor.double())

    def linear(self, function: Callable[..., Tensor], *forms: _Form) -> _Form:
        constant = function(*(form.constant for form in forms))
        known = {value: lazy.into for form in forms for value, lazy in form.terms.items()}
        terms = {
            value: _Lazy(_composed(function, forms, value), known[value], constant.shape) for value in sorted(known)
        }
        return self._as_factor(_Form({value: lazy for value, lazy in terms.items() if lazy.answer.any()}, constant))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: _Form, right: _Form) -> _Form:
        if not left.terms:
            return self.linear(lambda x: function(left.constant, x), right)
        if not right.terms:
            return self.linear(lambda x: function(x, right.constant), left)
        if function is not torch.mul:
            raise NotCompilableError(
                "the network multiplies two functions of its input by a matrix product or a contraction; only "
                "element-wise products are evaluated under encryption: use those of CCP, NCP and Step"
            )
        shape = torch.broadcast_shapes(left.constant.shape, right.constant.shape)
        return self._multiply(*(self.linear(lambda x: x.expand(shape).clone(), form) for form in (left, right)))

    def refuse(self, operation: Operation, reason: str) -> _Form:
        raise NotCompilableError(f"{operation.path or 'forward'}: {operation.name} {reason}")

    def _multiply(self, left: _Form, right: _Form) -> _Form:
        self.products.append((left, right))
        return _unit(len(self.products), left.constant.shape)

    def _as_factor(self, form: _Form) -> _Form:
        """Write u x + x as (u + 1) x, which a tree of products can balance."""
        for value, lazy in form.terms.items():
            if value == 0 or not lazy.is_unit:
                continue
            left, right = self.products[value - 1]
            rest = _Form({other: part for other, part in form.terms.items() if other != value}, form.constant)
            for carried, gate in ((right, left), (left, right)):
                if _equal(rest, carried):
                    return self._multiply(_Form(gate.terms, gate.constant + 1), carried)
        return form


def _composed(function: Callable[..., Tensor], forms: Sequence[_Form], value: int) -> Callable[[Tensor], Tensor]:
    """A function of several forms as a function of one of their values; what does not depend on it counts as zero."""
    parts = [form.terms.get(value) for form in forms]
    zeros = [torch.zeros_like(form.constant) for form in forms]

    def composed(x: Tensor) -> Tensor:
        return function(*(zero if part is None else part.function(x) for part, zero in zip(parts, zeros, strict=True)))

    return composed


def _equal(left: _Form, right: _Form) -> bool:
    return (
        left.terms.keys() == right.terms.keys()
        and left.constant.shape == right.constant.shape
        and torch.equal(left.constant, right.constant)
        and all(torch.equal(part.answer, right.terms[value].answer) for value, part in left.terms.items())
    )


def _simplify(size: int, products: list[tuple[_Form, _Form]], output: Affine) -> Circuit:
    """Drop unused products, merge products used once as a factor into the product that uses them, and renumber."""
    factors = {number: [form.affine() for form in pair] for number, pair in enumerate(products, 1)}
    used = _used(factors, output)
    for number in sorted(used):
        merged: list[Affine] = []
        for factor in factors[number]:
            inner = factor.same_as
            if inner and used[inner] == 1 and not factor.constant.any():
                merged += factors.pop(inner)
            else:
                merged.append(factor)
        factors[number] = merged
    kept = sorted(number for number in factors if number in used)
    renumber = {0: 0, **{number: position for position, number in enumerate(kept, 1)}}

    def renumbered(form: Affine) -> Affine:
        return Affine({renumber[value]: matrix for value, matrix in form.terms.items()}, form.constant)

    products_kept = tuple(Product(tuple(renumbered(form) for form in factors[number])) for number in kept)
    return Circuit(size, products_kept, renumbered(output))


def _used(factors: dict[int, list[Affine]], output: Affine) -> dict[int, int]:
    """How often each product is used, for those that the output depends on."""
    used: dict[int, int] = {}
    waiting = [output]
    while waiting:
        for value in waiting.pop().terms:
            if value:
                used[value] = used.get(value, 0) + 1
                if used[value] == 1:
                    waiting += factors[value]
    return used


def _what_is_in_the_way(violations: Sequence[Violation]) -> str:
    """One entry for each operation: where it occurs and what to replace it with."""
    lines = []
    for first, elsewhere in each_once(violations):
        known = [instead for name, instead in _INSTEAD.items() if name in first.operation]
        if known:
            better = known[0]
        elif "PowerSum" in first.reason:
            better = "pinets.PowerSum, a polynomial activation"
        else:
            better = "" if "failed" in first.reason else "sums and products, as those of CCP and NCP"
        what = replace(first, reason=first.reason.partition(";")[0])
        lines.append(f"{what}{elsewhere}{better and '; replace it with '}{better}")
    return "only polynomials can be evaluated under encryption, and this network is not one: " + "; ".join(lines)
