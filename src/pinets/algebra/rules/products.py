"""Operations that multiply: elementwise products, powers, contractions, determinants, variances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Operation, Refusal, Signed, Value
from pinets.algebra.rules.linear import divide
from pinets.algebra.rules.support import Rule, at_least_one, finite, lift, refuse_rounding

__all__ = ["RULES"]

_LARGEST_DETERMINANT = 8  # rows; a determinant is computed with n 2**(n - 1) products
_SUBTRACT = Signed(torch.sub, torch.add)


def _product_of_two(domain: Domain, operation: Operation) -> Value:
    left, right = operation.args
    target: Callable[[Tensor, Tensor], Tensor] = torch.mul if operation.name == "mul" else operation.target
    return domain.product(target, lift(domain, operation, left), lift(domain, operation, right))


def _power(domain: Domain, operation: Operation) -> Value:
    base, exponent = operation.args
    if isinstance(exponent, Tensor) and exponent.numel() == 1:
        exponent = exponent.item()
    if isinstance(exponent, Value) or not isinstance(base, (Value, Tensor)):
        raise Refusal("has an exponent that depends on the input")
    exponents = exponent.flatten().tolist() if isinstance(exponent, Tensor) else [exponent]
    wrong = [each for each in exponents if not float(each).is_integer() or each < 0]  # NaN and infinity are none either
    if wrong:
        raise Refusal(f"has the exponent {wrong[0]}; only whole numbers from 0 on give polynomials")
    shape = operation.example.shape  # an exponent that is a tensor may add axes
    most = int(max(exponents, default=0))
    one = domain.constant(operation.made(operation.zeros(shape) + 1))
    if most == 0:
        return one
    value = lift(domain, operation, base)

    def factor(number: int) -> Value:
        """The base where the exponent is larger than a number, one elsewhere."""
        if not isinstance(exponent, Tensor):
            return value
        return domain.linear(lambda x, y: torch.where(exponent > number, x, y), value, one)

    power = reduce(partial(domain.product, torch.mul), map(factor, range(most)))
    return power if shape == operation.shape else domain.linear(lambda x: x.expand(shape), power)


def _square(domain: Domain, operation: Operation) -> Value:
    base = lift(domain, operation, operation.args[0])
    return domain.product(torch.mul, base, base)


def _product_over_axis(domain: Domain, operation: Operation) -> Value:
    """``prod`` and ``cumprod``; torch may multiply in any order."""
    base, rest = lift(domain, operation, operation.args[0]), operation.args[1:]
    axis, shape = (rest[0] if rest else 0), operation.shape
    refuse_rounding(operation)
    if not rest:
        base, shape = domain.linear(lambda x: x.flatten(), base), torch.Size([shape.numel()])
    if not shape[axis]:
        return domain.constant(operation.made(operation.zeros(operation.example.shape) + 1))
    keep = operation.name == "cumprod" or bool(operation.argument(2, "keepdim", False))
    factors = [domain.linear(_element(axis, position, keep), base) for position in range(shape[axis])]
    partial_products = list(itertools.accumulate(factors, partial(domain.product, torch.mul)))
    if operation.name == "cumprod":
        result = domain.linear(lambda *pieces: torch.cat(pieces, axis), *partial_products)
        return domain.guard(result, lambda x: len(factors) * at_least_one(x).cumprod(axis), base)
    return domain.guard(partial_products[-1], lambda x: len(factors) * at_least_one(x).prod(axis, keepdim=keep), base)


def _element(axis: int, position: int, keep: bool) -> Callable[[Tensor], Tensor]:
    return lambda x: x.narrow(axis, position, 1) if keep else x.select(axis, position)


def _cross(domain: Domain, operation: Operation) -> Value:
    """Of vectors with three elements: (a2 b3 - a3 b2, a3 b1 - a1 b3, a1 b2 - a2 b1)."""
    axis = operation.argument(2, "dim", -1)
    left, right = (lift(domain, operation, value) for value in operation.args[:2])

    def turned(value: Value, steps: int) -> Value:
        return domain.linear(lambda x: x.roll(-steps, axis), value)

    first, second = (
        domain.product(torch.mul, turned(left, one), turned(right, other)) for one, other in ((1, 2), (2, 1))
    )
    return domain.linear(_SUBTRACT, first, second)


def _determinant(domain: Domain, operation: Operation) -> list[Value | None]:
    """Expand along the rows: the minors of the first k rows, for every choice of k columns."""
    matrix, size = lift(domain, operation, operation.args[0]), operation.shape[-1]
    if size > _LARGEST_DETERMINANT:
        raise Refusal(
            f"of {size} rows is a polynomial of degree {size} with too many terms; at most {_LARGEST_DETERMINANT} rows "
            f"are understood here"
        )
    minors: dict[tuple[int, ...], Value] = {}
    for rows in range(1, size + 1):
        for columns in itertools.combinations(range(size), rows):
            minors[columns] = _minor(domain, matrix, columns, minors)
    determinant = minors[tuple(range(size))]
    return [determinant, *[None] * (len(operation.example) - 1)]  # torch returns its factorisation too


def _minor(domain: Domain, matrix: Value, columns: tuple[int, ...], known: dict[tuple[int, ...], Value]) -> Value:
    """The minor of the first rows and these columns, expanded along its last row."""
    total: Value | None = None
    for place, column in enumerate(columns):
        term = domain.linear(_entry(len(columns) - 1, column), matrix)
        if len(columns) > 1:
            term = domain.product(torch.mul, term, known[columns[:place] + columns[place + 1 :]])
        plus = (len(columns) - 1 + place) % 2 == 0
        if total is None:
            total = term if plus else domain.linear(Signed(torch.neg, torch.clone), term)
        else:
            total = domain.linear(torch.add if plus else _SUBTRACT, total, term)
    assert total is not None
    return total


def _entry(row: int, column: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x[..., row, column]


def _variance(domain: Domain, operation: Operation) -> Any:
    """The mean square deviation from the mean, of which torch divides the sum at the end."""
    value, options = lift(domain, operation, operation.args[0]), operation.kwargs
    overload = operation.target._overloadname
    dims = None if overload == "default" else operation.argument(1, "dim")
    unbiased = operation.argument(1 if overload == "default" else 2, "unbiased", True)
    given = options.get("correction") if overload == "correction" else float(unbiased)
    keep = bool(options.get("keepdim", operation.args[3] if len(operation.args) > 3 else False))
    axes = range(len(operation.shape)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    axes = list(axes)
    divisor = math.prod(operation.shape[axis] for axis in axes) - (1.0 if given is None else float(given))
    if not 0 < divisor < math.inf:
        raise Refusal(f"divides by {divisor}, the number of its elements less the correction")
    mean = domain.linear(lambda x: x.mean(axes, keepdim=True), value)
    mean = domain.guard(mean, lambda x: x.sum(axes, keepdim=True), value)
    apart = domain.linear(_SUBTRACT, value, mean)
    total = domain.linear(lambda x: x.sum(axes, keepdim=keep), domain.product(torch.mul, apart, apart))
    variance = domain.linear(lambda x: x / divisor, total)
    if operation.name == "var":
        return variance
    return [variance, mean if keep else domain.linear(lambda x: x.squeeze(tuple(axes)), mean)]


def _interpolate(domain: Domain, operation: Operation) -> Value:
    """``lerp``: start + weight (end - start)."""
    start, end, weight = (lift(domain, operation, argument) for argument in operation.args)
    moved = domain.product(torch.mul, weight, domain.linear(_SUBTRACT, end, start))
    return domain.linear(torch.add, start, moved)


def _einsum(domain: Domain, operation: Operation) -> Value:
    """Contract factors that depend on the input in pairs, until two are left; constants come last."""
    equation, tensors, *_ = operation.args
    tensors = [operation.enclosures.get(id(tensor), (None, tensor))[1] for tensor in tensors]
    inputs, output = _subscripts(equation, [example.ndim for example in operation.examples[1]])
    sizes = {
        label: size
        for labels, example in zip(inputs, operation.examples[1], strict=True)
        for label, size in zip(labels, example.shape, strict=True)
        if size > 1
    }
    terms = math.prod(size for label, size in sizes.items() if label not in output)
    factors = list(zip(inputs, tensors, strict=True))
    live = [factor for factor in factors if isinstance(factor[1], Value)]
    fixed = [(own, finite(operation, tensor)) for own, tensor in factors if not isinstance(tensor, Value)]

    def contract(size: Callable[[Tensor], Tensor], labels: list[list[int]], *values: Tensor) -> Tensor:
        constants = [(size(tensor), own) for own, tensor in fixed]
        return _contract([*zip(values, labels, strict=True), *constants], output)

    originals, labels = [value for _, value in live], [own for own, _ in live]
    while len(live) > 2:
        (left, x), (right, y), *others = live
        needed = {*output, *itertools.chain(*(own for own, _ in (*others, *fixed)))}
        kept = [label for label in dict.fromkeys([*left, *right]) if label in needed]
        live = [(kept, domain.product(_pair(left, right, kept), x, y)), *others]
    now = [own for own, _ in live]

    def count(*values: Tensor) -> Tensor:
        return contract(torch.ones_like, now, *values).clamp(min=terms)

    function = Signed(partial(contract, torch.clone, now), partial(contract, torch.abs, now), count)
    values = [value for _, value in live]
    result = domain.product(function, *values) if len(values) == 2 else domain.linear(function, *values)
    if len(tensors) < 3:
        return result
    return domain.guard(
        result, lambda *sizes: contract(at_least_one, labels, *(at_least_one(size) for size in sizes)), *originals
    )


def _pair(left: list[int], right: list[int], kept: list[int]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: _contract([(x, left), (y, right)], kept)


def _contract(factors: Sequence[tuple[Tensor, list[int]]], output: list[int]) -> Tensor:
    return torch.einsum(*itertools.chain(*factors), output)


def _subscripts(equation: str, ranks: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """The axes of every factor and of the result as numbers: letters in their order, then those of an ellipsis.

    >>> _subscripts("...i,ij", [2, 2])
    ([[2, 0], [0, 1]], [2, 1])
    """
    inputs, arrow, given = equation.replace(" ", "").partition("->")
    parts, letters = inputs.split(","), sorted({*inputs} - {*".,"})
    hidden = [rank - len(part.replace("...", "")) for part, rank in zip(parts, ranks, strict=True)]
    most = max((count for part, count in zip(parts, hidden, strict=True) if "..." in part), default=0)

    def numbered(part: str, count: int) -> list[int]:
        before, dots, after = part.partition("...")
        ellipsis = range(len(letters) + most - count, len(letters) + most) if dots else ()
        return [*map(letters.index, before), *ellipsis, *map(letters.index, after)]

    labels = [numbered(part, count) for part, count in zip(parts, hidden, strict=True)]
    if arrow:
        return labels, numbered(given, most)
    single = [number for number, letter in enumerate(letters) if inputs.count(letter) == 1]
    return labels, [*range(len(letters), len(letters) + most), *single]


def _add_product(multiply: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """addmm, baddbmm, addcmul, ...: beta * a + alpha * (b times c)."""

    def rule(domain: Domain, operation: Operation) -> Value:
        a, b, c = (lift(domain, operation, argument) for argument in operation.args[:3])
        beta = finite(operation, operation.kwargs.get("beta", 1)).item()
        alpha = finite(operation, operation.kwargs.get("alpha", operation.kwargs.get("value", 1))).item()
        times = domain.product(multiply, b, c)
        function = Signed(lambda x, y: beta * x + alpha * y, lambda x, y: abs(beta) * x + abs(alpha) * y)
        result = domain.linear(function, a, times)
        if alpha == 1:
            return result
        return domain.guard(result, lambda x, y: max(1, abs(alpha)) * multiply(at_least_one(x), at_least_one(y)), b, c)

    return rule


def _divided_product(domain: Domain, operation: Operation) -> Value:
    """``addcdiv``: a + value * b / c is ``addcmul`` with one over a constant c."""
    a, b, c = operation.args[:3]
    inverse = divide(domain, replace(operation, args=(1, c), kwargs={}))
    return RULES["addcmul"](domain, replace(operation, args=(a, b, inverse)))


def _squared_error(domain: Domain, operation: Operation) -> Value:
    left, right = (lift(domain, operation, argument) for argument in operation.args[:2])
    apart = domain.linear(_SUBTRACT, left, right)
    squares = domain.product(torch.mul, apart, apart)
    reduction = operation.argument(2, "reduction", 1)
    if reduction == 0:
        return squares
    total = domain.linear(lambda x: x.sum(), squares)
    count = torch.broadcast_shapes(*(example.shape for example in operation.examples[:2])).numel()
    return total if reduction == 2 else domain.linear(lambda x: x / count, total)


def _scale_by_power(domain: Domain, operation: Operation) -> Value:
    """``ldexp``: a times two to the power of b."""
    value, exponent = operation.args
    if isinstance(exponent, Value):
        raise Refusal("has an exponent that depends on the input")
    base, factor = lift(domain, operation, value), torch.exp2(exponent.double())
    out = domain.product(torch.mul, base, domain.constant(factor))
    return domain.guard(out, lambda x: at_least_one(x) * at_least_one(factor), base)  # the factor may be rounded


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mul", "matmul", "mm", "bmm", "mv", "dot", "vdot", "outer", "inner", "kron"), _product_of_two),
    "pow": _power,
    "square": _square,
    **dict.fromkeys(("prod", "cumprod"), _product_over_axis),
    "linalg_cross": _cross,
    "_linalg_det": _determinant,
    **dict.fromkeys(("var", "var_mean"), _variance),
    "lerp": _interpolate,
    "einsum": _einsum,
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _add_product(torch.matmul)),
    "addcmul": _add_product(torch.mul),
    "addbmm": _add_product(lambda x, y: torch.matmul(x, y).sum(0)),
    "addcdiv": _divided_product,
    "mse_loss": _squared_error,
    "ldexp": _scale_by_power,
}
