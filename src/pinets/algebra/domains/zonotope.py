r"""Zonotopes with products: what values have in common is kept, to the second order.

With one symbol :math:`e_i \in [-1, 1]` for every input, a value is

.. math:: x = c + G^T e + \sum_t \kappa_t \, (a_t^T e)(b_t^T e) + \theta + \rho + \varepsilon, \qquad
    |\theta| \le \sum_t K_t |a_t^T e| |b_t^T e|, \quad |\rho| \le r

The products of two linear forms come from the multiplications of the network. Their coefficients :math:`\kappa` are
exact; what is of third or higher order is at most :math:`K` times such a product, or in :math:`\rho`. How much smaller
a sum of products is than the sum of their maxima is found out where it is needed: from their spectrum
(:mod:`pinets.algebra.domains.norms`), or by a dual (:mod:`pinets.algebra.shor`). :math:`\varepsilon` is the rounding of
the network itself, kept apart because :mod:`pinets.algebra.domains.tape` bounds it better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Value, in_one_argument
from pinets.algebra.domains.footprint import Footprint, count_terms, footprints, magnitude_of
from pinets.algebra.domains.interval import Interval, IntervalDomain, count_products, invert_interval, map_interval
from pinets.algebra.domains.norms import largest_sum_of_squares
from pinets.algebra.domains.rounding import OURS, Rounding

__all__ = ["LARGEST_PRODUCTS", "Forms", "Products", "Zonotope", "ZonotopeDomain"]

_LARGEST_SPECTRA = 2**25  # multiplications of the matrices that sums of products are weighed with, at one squaring
_SUMMED = 2**18  # more products of forms than a value sums up: a multiplication gives at most 2**11
LARGEST_PRODUCTS = 2**22  # coefficients of one value for the products of one multiplication; beyond, they become noise


@dataclass(frozen=True, eq=False)
class Forms:
    """Pairs of linear forms of the symbols, one pair for every product of a multiplication."""

    left: Tensor  # (symbols, products)
    right: Tensor

    @cached_property
    def size(self) -> Tensor:
        """The largest absolute value of each product."""
        return self.left.abs().sum(0) * self.right.abs().sum(0)


@dataclass(frozen=True)
class Products:
    """How the elements of a value depend on products of forms."""

    forms: Forms
    exact: Tensor  # (products, *shape)
    loose: Tensor  # the same, not negative: the largest size of further coefficients
    own: bool = False  # whether there is one product for each element, and no element depends on another's

    @property
    def weight(self) -> Tensor:
        return self.exact.abs() + self.loose

    @cached_property
    def size(self) -> Tensor:
        """The sum of the maxima."""
        return torch.tensordot(self.forms.size, self.weight, 1)


@dataclass(frozen=True)
class Zonotope(Value):
    """A value as above, and an interval that it lies in as well."""

    center: Tensor
    generators: Tensor | None  # (symbols, *shape); None for a constant
    products: tuple[Products, ...]
    noise: Tensor
    error: Tensor  # of the network's own rounding
    rest: Tensor  # the largest value of all products together
    hull: Interval

    @cached_property
    def reach(self) -> Tensor:
        """The largest value of the linear part."""
        return torch.zeros_like(self.center) if self.generators is None else self.generators.abs().sum(0)

    @cached_property
    def size(self) -> Tensor:
        """The sum of the absolute values of all terms."""
        maxima = sum((part.size for part in self.products), self.noise)
        return self.center.abs() + self.reach + maxima + self.error

    @property
    def spread(self) -> Tensor:
        """How far the value can be from its centre, without the rounding of the network."""
        return self.reach + self.rest + self.noise

    @property
    def deviation(self) -> Tensor:
        """How far the value can be from its centre."""
        ends = torch.maximum(self.hull.upper - self.center, self.center - self.hull.lower)
        return torch.minimum(ends, self.spread + self.error)

    def expand(self, shape: torch.Size) -> Zonotope:
        if self.center.shape == shape:
            return self
        return Zonotope(
            self.center.expand(shape),
            None if self.generators is None else _expand(self.generators, shape),
            tuple(Products(p.forms, _expand(p.exact, shape), _expand(p.loose, shape)) for p in self.products),
            self.noise.expand(shape),
            self.error.expand(shape),
            self.rest.expand(shape),
            Interval(self.hull.lower.expand(shape), self.hull.upper.expand(shape)),
        )


class ZonotopeDomain(Domain[Zonotope]):
    """Run a graph on zonotopes with so many symbols."""

    def __init__(self, rounding: Rounding, symbols: int) -> None:
        self.rounding, self.symbols = rounding, symbols
        self.plain = IntervalDomain(rounding)

    def box(self, lower: Tensor, upper: Tensor, first: int = 0) -> Zonotope:
        """All between two tensors, each element with a symbol of its own, from number ``first`` on."""
        hull = Interval(lower, upper)
        radius = hull.radius + OURS.slack(0, hull.size)
        elements, others = lower.numel(), torch.zeros(self.symbols, lower.numel(), dtype=torch.float64)
        own = torch.eye(elements, dtype=torch.float64) * radius.flatten()
        generators = torch.cat([others[:first], own, others[first + elements :]]).reshape(-1, *lower.shape)
        zero = torch.zeros_like(lower)
        return Zonotope(hull.middle, generators, (), zero, zero, zero, hull)

    def constant(self, tensor: Tensor) -> Zonotope:
        value = tensor.double()
        zero = torch.zeros_like(value)
        return Zonotope(value, None, (), zero, zero, zero, Interval(value, value))

    def linear(self, function: Callable[..., Tensor], *values: Zonotope) -> Zonotope:
        magnitude = magnitude_of(function)
        uses = footprints(function, [value.center for value in values])
        hull = map_interval(function, [value.hull for value in values], uses, self.rounding)
        count = count_terms(function, uses, [value.center for value in values])
        center = function(*(value.center for value in values))
        operands = [_slim(value, center) for value in values]
        noise, error, rest = (
            magnitude(*(getattr(value, part) for value in operands)) for part in ("noise", "error", "rest")
        )
        if count:
            size = magnitude(*(value.size for value in operands))
            noise, error = noise + self._ours(count, size), error + self.rounding.slack(count, size)
        products = _push_products(function, uses, operands)
        found = Zonotope(center, _push(function, operands), products, noise, error, rest, hull)
        return self._known(found, sums=not all(use.picks for use in uses))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Zonotope, right: Zonotope) -> Zonotope:
        r"""With :math:`x = c_x + g_x + q_x + \theta_x` and the same for y, and :math:`d_y = y - c_y`:

        .. math:: xy = c_x c_y + (c_x g_y + c_y g_x) + (c_x q_y + c_y q_x + g_x g_y) + q_x d_y + g_x q_y + \theta_x y
            + (c_x + g_x) \theta_y

        A matrix product or a convolution sums such products up at once, and :math:`g_x g_y` becomes noise.
        """
        elementwise, magnitude = function is torch.mul, magnitude_of(function)
        hull = self.plain.product(function, left.hull, right.hull)
        count, size = count_products(function, left.center, right.center), magnitude(left.size, right.size)
        if elementwise:
            left, right = left.expand(hull.lower.shape), right.expand(hull.lower.shape)
        x, y = _slim(left, hull.lower), _slim(right, hull.lower)
        of_left, of_right, size_left, size_right = (
            times if elementwise else torch.vmap(times, axes)  # an elementwise product broadcasts
            for times in (function, magnitude)
            for axes in ((0, None), (None, 0))
        )
        generators = _sum(
            None if x.generators is None else of_left(x.generators, y.center),
            None if y.generators is None else of_right(x.center, y.generators),
        )
        linear_x, size_y, far_y = x.center.abs() + x.reach, y.hull.size, y.deviation
        products = [
            Products(
                part.forms,
                of_left(part.exact, y.center),
                size_left(part.loose, size_y) + size_left(part.exact.abs(), far_y),
                part.own and elementwise,
            )
            for part in x.products
        ]
        for part in y.products:
            own = part.own and elementwise
            loose = size_right(linear_x, part.loose)
            if own and x.generators is not None:
                products += _third_order(part, x.generators)
            else:
                loose = loose + size_right(x.reach, part.exact.abs())
            products.append(Products(part.forms, of_right(x.center, part.exact), loose, own))
        noise, error, rest = (
            magnitude(getattr(x, part), size_y) + magnitude(linear_x, getattr(y, part))
            for part in ("noise", "error", "rest")
        )
        if x.generators is not None and y.generators is not None:
            elements, both = x.center.numel(), magnitude(x.reach, y.reach)
            if elementwise and elements**2 <= LARGEST_PRODUCTS:
                forms = Forms(x.generators.reshape(self.symbols, -1), y.generators.reshape(self.symbols, -1))
                exact = torch.eye(elements, dtype=torch.float64).reshape(elements, *x.center.shape)
                products.append(Products(forms, exact, torch.zeros_like(exact), own=True))
                rest = rest + both
            else:
                noise = noise + both
        noise, error = noise + self._ours(count, size), error + self.rounding.slack(count, size)
        found = Zonotope(function(x.center, y.center), generators, _merged(products), noise, error, rest, hull)
        return self._known(found, sums=not elementwise)

    def guard(self, value: Zonotope, reach: Callable[..., Tensor], *operands: Zonotope) -> Zonotope:
        stray = self.rounding.stray(reach(*(operand.hull.size for operand in operands))).expand(value.center.shape)
        hull = Interval(value.hull.lower - stray, value.hull.upper + stray)
        return replace(value, error=value.error + stray, hull=hull)

    def reciprocal(self, value: Zonotope) -> Zonotope:
        hull = invert_interval(value.hull, self.rounding)
        zero = torch.zeros_like(hull.lower)
        return Zonotope(hull.middle, None, (), hull.radius, zero, zero, hull)

    def _known(self, loose: Zonotope, *, sums: bool) -> Zonotope:
        """The value, with its own bounds taken into its hull; after a sum, its products are weighed together."""
        rest = loose.rest
        if sums and loose.products:
            rest = torch.minimum(rest, sum((_weighed(part) for part in loose.products), torch.zeros_like(rest)))
        spread = loose.reach + rest + loose.noise + loose.error + OURS.slack(self.symbols, loose.size)
        hull = loose.hull.meet(Interval(loose.center - spread, loose.center + spread))
        return replace(loose, rest=rest, hull=hull)

    def _ours(self, count: float, size: Tensor) -> Tensor:
        """The rounding of these computations, which also sum over symbols and products."""
        return OURS.slack(count + self.symbols + _SUMMED, size)


def _third_order(part: Products, generators: Tensor) -> list[Products]:
    """Products, one for each element, times the linear part of a factor: of three forms, one is as large as it gets.

    Which one is open. A third of each choice is better than one choice, because more forms share the weight.
    """
    size = part.exact.abs()
    factor = generators.reshape(len(generators), -1)
    left, right = part.forms.left, part.forms.right
    shape = (-1, *(1,) * (size.ndim - 1))
    nothing = torch.zeros_like(size)
    return [
        Products(part.forms, nothing, size * factor.abs().sum(0).reshape(shape) / 3, own=True),
        Products(Forms(left, factor), nothing, size * right.abs().sum(0).reshape(shape) / 3),
        Products(Forms(factor, right), nothing, size * left.abs().sum(0).reshape(shape) / 3),
    ]


def _weighed(part: Products) -> Tensor:
    """How large a sum of products can be."""
    forms, weights = part.forms, part.weight
    count, outputs = len(weights), part.size.numel()
    if count == 1 or outputs * count**3 > _LARGEST_SPECTRA:
        return part.size
    rows = weights.reshape(count, -1).T  # (outputs, products)
    left, right = (largest_sum_of_squares(form, rows) for form in (forms.left, forms.right))
    together = (left * right).sqrt()  # Cauchy-Schwarz
    return torch.minimum(part.size, together.reshape(part.size.shape))


def _slim(value: Zonotope, result: Tensor) -> Zonotope:
    """The value as it is, or with its products as noise if an operation with this result would get too large."""
    if all(len(part.exact) * result.numel() <= LARGEST_PRODUCTS for part in value.products):
        return value
    return replace(value, products=(), noise=value.noise + value.rest, rest=torch.zeros_like(value.rest))


def _merged(products: Sequence[Products]) -> tuple[Products, ...]:
    """Sum the coefficients of the same forms."""
    found: dict[int, Products] = {}
    for part in products:
        known = found.get(id(part.forms))
        if known is not None:
            part = Products(part.forms, known.exact + part.exact, known.loose + part.loose, known.own and part.own)
        found[id(part.forms)] = part
    return tuple(found.values())


def _push_products(
    function: Callable[..., Tensor], uses: Sequence[Footprint], operands: Sequence[Zonotope]
) -> tuple[Products, ...]:
    """What a linear function of operands makes of their products."""
    zeros = [torch.zeros_like(value.center) for value in operands]
    found = []
    for position, (value, use) in enumerate(zip(operands, uses, strict=True)):
        alone = in_one_argument(function, zeros, position)
        for part in value.products:
            exact, loose = torch.vmap(alone)(part.exact), torch.vmap(use.magnitude)(part.loose)
            own = part.own and use.elementwise
            found.append(Products(part.forms, exact, loose, own))
    return _merged(found)


def _expand(form: Tensor, shape: torch.Size) -> Tensor:
    missing = (1,) * (len(shape) + 1 - form.ndim)
    return form.reshape(len(form), *missing, *form.shape[1:]).expand(-1, *shape)


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
