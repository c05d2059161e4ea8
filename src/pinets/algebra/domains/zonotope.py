r"""Zonotopes with products: what values have in common is kept, also through a multiplication.

With one symbol :math:`e_i \in [-1, 1]` for every input, a value is

.. math:: x = c + G^T e + \sum_t p_t + \rho, \qquad |p_{tk}| \le s_{tk} |a_{tk}^T e| |b_{tk}^T e|, \quad |\rho| \le r

the products of two linear forms being kept as such until a linear map sums them up: only then is it known how they are
weighted, and how much smaller their sum is than the sum of their maxima (:mod:`pinets.algebra.domains.norms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value
from pinets.algebra.domains.footprint import Footprint, count_terms, footprints, magnitude_of
from pinets.algebra.domains.interval import Interval, count_products, invert_interval, map_interval, multiply_intervals
from pinets.algebra.domains.norms import largest_sum_of_squares
from pinets.algebra.domains.rounding import Rounding

__all__ = ["Product", "Zonotope", "ZonotopeDomain"]

_OURS = Rounding.of(None)
_LARGEST = 2**22  # elements of the matrices that sums of products are weighed with; beyond, their maxima are summed


@dataclass(frozen=True)
class Product:
    """The product of two linear forms of the symbols, times a factor whose size alone is known."""

    left: Tensor  # (symbols, *shape)
    right: Tensor
    factor: Tensor  # (*shape), not negative

    @cached_property
    def size(self) -> Tensor:
        return self.factor * self.left.abs().sum(0) * self.right.abs().sum(0)

    def scaled(self, by: Tensor) -> Product:
        factor = self.factor * by
        return Product(_expand(self.left, factor.shape), _expand(self.right, factor.shape), factor)


@dataclass(frozen=True)
class Zonotope(Value):
    """A value as above, and an interval that it lies in as well."""

    center: Tensor
    generators: Tensor | None  # (symbols, *shape); None for a constant
    products: tuple[Product, ...]
    noise: Tensor
    hull: Interval

    @cached_property
    def reach(self) -> Tensor:
        """The largest value of the linear part."""
        return torch.zeros_like(self.center) if self.generators is None else self.generators.abs().sum(0)

    @cached_property
    def rest(self) -> Tensor:
        """The largest value of all that is not linear."""
        return sum((product.size for product in self.products), self.noise)

    @cached_property
    def size(self) -> Tensor:
        return self.center.abs() + self.reach + self.rest

    def expand(self, shape: torch.Size) -> Zonotope:
        if self.center.shape == shape:
            return self
        ones = torch.ones(shape, dtype=torch.float64)
        return Zonotope(
            self.center.expand(shape),
            None if self.generators is None else _expand(self.generators, shape),
            tuple(product.scaled(ones) for product in self.products),
            self.noise.expand(shape),
            Interval(self.hull.lower.expand(shape), self.hull.upper.expand(shape)),
        )


class ZonotopeDomain(Domain):
    """Run a graph on zonotopes.

    Args:
        rounding: The error of each operation in floating point.
        symbols: How many there are.
    """

    def __init__(self, rounding: Rounding, symbols: int) -> None:
        self.rounding, self.symbols = rounding, symbols

    def box(self, lower: Tensor, upper: Tensor, first: int = 0) -> Zonotope:
        """All between two tensors, each element with a symbol of its own, from number ``first`` on."""
        hull = Interval(lower, upper)
        radius = hull.radius + _OURS.slack(0, hull.size)
        elements, others = lower.numel(), torch.zeros(self.symbols, lower.numel(), dtype=torch.float64)
        own = torch.eye(elements, dtype=torch.float64) * radius.flatten()
        generators = torch.cat([others[:first], own, others[first + elements :]]).reshape(-1, *lower.shape)
        return Zonotope(hull.middle, generators, (), torch.zeros_like(lower), hull)

    def constant(self, tensor: Tensor) -> Zonotope:
        value = tensor.double()
        return Zonotope(value, None, (), torch.zeros_like(value), Interval(value, value))

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Zonotope:
        operands = _as_zonotopes(values)
        uses = footprints(function, [value.center for value in operands])
        hull = map_interval(function, [value.hull for value in operands], uses, self.rounding)
        count = count_terms(function, uses, [value.center for value in operands])
        noise = magnitude_of(function)(*(value.noise for value in operands))
        if count:
            noise = noise + self._slack(count, magnitude_of(function)(*(value.size for value in operands)))
        products: list[Product] = []
        for value, use in zip(operands, uses, strict=True):
            if use.picks:
                products += [_picked(product, use) for product in value.products]
            else:
                noise = noise + self._weighed(value.products, use.magnitude)
        center = function(*(value.center for value in operands))
        return self._known(center, _push(function, operands), tuple(products), noise, hull)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Zonotope:
        x, y = _as_zonotopes((left, right))
        hull = multiply_intervals(function, x.hull, y.hull, self.rounding)
        slack = self._slack(count_products(function, x.center, y.center), magnitude_of(function)(x.size, y.size))
        if function is torch.mul:
            shape = torch.broadcast_shapes(x.center.shape, y.center.shape)
            return self._multiply(x.expand(shape), y.expand(shape), hull, slack)
        return self._bilinear(function, x, y, hull, slack)

    def guard(self, value: Value, reach: Callable[..., Tensor], *operands: Value) -> Zonotope:
        (found,), given = _as_zonotopes([value]), _as_zonotopes(operands)
        stray = self.rounding.stray(reach(*(operand.hull.size for operand in given))).expand(found.center.shape)
        hull = Interval(found.hull.lower - stray, found.hull.upper + stray)
        return Zonotope(found.center, found.generators, found.products, found.noise + stray, hull)

    def reciprocal(self, value: Value) -> Zonotope:
        (found,) = _as_zonotopes([value])
        hull = invert_interval(found.hull, self.rounding)
        return Zonotope(hull.middle, None, (), hull.radius, hull)

    def _multiply(self, x: Zonotope, y: Zonotope, hull: Interval, slack: Tensor) -> Zonotope:
        """(c_x + g_x + q_x) (c_y + g_y + q_y) = c_x c_y + (c_x g_y + g_x c_y) + g_x g_y + q_x y + (c_x + g_x) q_y."""
        linear_x = x.center.abs() + x.reach
        products = [product.scaled(y.hull.size) for product in x.products]
        products += [product.scaled(linear_x) for product in y.products]
        noise = x.noise * y.hull.size + linear_x * y.noise + slack
        generators = _sum(
            None if x.generators is None else x.generators * y.center,
            None if y.generators is None else y.generators * x.center,
        )
        if x.generators is not None and y.generators is not None:
            products.append(Product(x.generators, y.generators, torch.ones_like(x.center)))
        return self._known(x.center * y.center, generators, tuple(products), noise, hull)

    def _bilinear(
        self, function: Callable[[Tensor, Tensor], Tensor], x: Zonotope, y: Zonotope, hull: Interval, slack: Tensor
    ) -> Zonotope:
        """As :meth:`_multiply` for matrix products and convolutions, which sum products up at once."""
        magnitude = magnitude_of(function)
        center = function(x.center, y.center)
        generators = _sum(
            None if x.generators is None else torch.vmap(function, (0, None))(x.generators, y.center),
            None if y.generators is None else torch.vmap(function, (None, 0))(x.center, y.generators),
        )
        linear_x, size_y = x.center.abs() + x.reach, y.hull.size
        noise = magnitude(x.noise, size_y) + magnitude(linear_x, y.noise) + slack
        if x.generators is not None and y.generators is not None:
            noise = noise + magnitude(x.reach, y.reach)
        noise = noise + self._weighed(x.products, lambda value: magnitude(value, size_y))
        noise = noise + self._weighed(y.products, lambda value: magnitude(linear_x, value))
        return self._known(center, generators, (), noise, hull)

    def _weighed(self, products: Sequence[Product], magnitude: Callable[[Tensor], Tensor]) -> Tensor | float:
        """How large what a linear map makes of products can be."""
        total: Tensor | float = 0.0
        for product in products:
            maxima = magnitude(product.size)
            forms = product.factor.numel()
            if forms > 1 and maxima.numel() * forms**2 <= _LARGEST:
                shape = product.factor.shape
                identity = torch.eye(forms, dtype=torch.float64).reshape(forms, *shape)
                matrix = torch.vmap(magnitude)(identity).reshape(forms, -1).T  # (outputs, forms)
                weights = matrix * product.factor.flatten()
                left, right = (
                    largest_sum_of_squares(form.reshape(len(form), -1), weights)
                    for form in (product.left, product.right)
                )
                together = (left * right).sqrt()  # Cauchy-Schwarz
                maxima = torch.minimum(maxima, together.reshape(maxima.shape))
            total = total + maxima
        return total

    def _known(
        self, center: Tensor, generators: Tensor | None, products: tuple[Product, ...], noise: Tensor, hull: Interval
    ) -> Zonotope:
        """The value, with its own bounds taken into its hull."""
        loose = Zonotope(center, generators, products, noise, hull)
        spread = loose.reach + loose.rest + _OURS.slack(self.symbols, loose.size)
        return Zonotope(center, generators, products, noise, hull.meet(Interval(center - spread, center + spread)))

    def _slack(self, count: float, size: Tensor) -> Tensor:
        """The rounding of the network's own sums, and of ours, which also go over the symbols."""
        return self.rounding.slack(count, size) + _OURS.slack(count + self.symbols, size)


def _expand(form: Tensor, shape: torch.Size) -> Tensor:
    missing = (1,) * (len(shape) + 1 - form.ndim)
    return form.reshape(len(form), *missing, *form.shape[1:]).expand(-1, *shape)


def _picked(product: Product, use: Footprint) -> Product:
    """What a function that takes at most one element for each output makes of products."""
    coefficient = torch.where(use.weight == 0, torch.ones_like(use.weight), use.weight)
    left, right = (torch.vmap(use.magnitude)(form) for form in (product.left, product.right))
    return Product(left, right, use.magnitude(product.factor) / coefficient.square())


def _push(function: Callable[..., Tensor], operands: Sequence[Zonotope]) -> Tensor | None:
    """The generators of a linear function of operands, constants having none."""
    if all(value.generators is None for value in operands):
        return None
    pieces = [torch.zeros_like(v.center) if v.generators is None else v.generators for v in operands]
    axes = tuple(None if value.generators is None else 0 for value in operands)
    return torch.vmap(function, axes)(*pieces)


def _sum(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


def _as_zonotopes(values: Sequence[Value]) -> list[Zonotope]:
    zonotopes = [value for value in values if isinstance(value, Zonotope)]
    if len(zonotopes) != len(values):
        raise TypeError("values of another domain cannot be mixed with zonotopes")
    return zonotopes
