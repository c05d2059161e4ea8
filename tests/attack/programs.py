"""Random programs of polynomial operations against exact rational arithmetic.

A program is run three times: by torch, by the algebra, and on arrays of polynomials with rational coefficients. Degree,
coefficients, contributions of each degree and bounds must agree with the last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets.algebra import ball, bounds, certify, expand, orders, trace
from tests.attack.tally import Tally, cases

__all__ = ["attack"]

LARGEST = 24  # elements of a value
HIGHEST = 6  # degree of a value
STEPS = 6
POINTS = 5

Array = Any  # of rational polynomials


@dataclass
class Program(nn.Module):
    """Steps that each make one value of the values before them; the last value is the output."""

    steps: list[tuple[str, Callable[..., Tensor], list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    __hash__ = nn.Module.__hash__

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for _, function, operands in self.steps:
            values.append(function(*(values[position] for position in operands)))
        return values[-1]

    def __str__(self) -> str:
        return "; ".join(f"{name}{operands}" for name, _, operands in self.steps)


def attack(seconds: float, seed: int) -> Tally:
    """The algebra must agree with exact arithmetic on every random program."""
    tally = Tally()
    for name, random in cases(seconds, seed):
        tally.cases += 1
        program, exact, features = written(random)
        try:
            compare(tally, f"{name}: {program}", program, exact, features, random)
        except Exception as error:
            tally.failures.append(f"{name}: {program}: {type(error).__name__}: {error}")
    return tally


def written(random: Random) -> tuple[Program, Array, int]:
    """A random program, its output in exact arithmetic, and the number of inputs."""
    import flint

    features = random.choice([2, 3, 4])
    context = flint.fmpq_mpoly_ctx.get([f"z{index}" for index in range(features)], "lex")
    program, values = Program(), [array_of([context.gens()])]
    while len(program.steps) < STEPS:
        name = random.choice(list(OPERATIONS))
        made = OPERATIONS[name](random, values)
        if made is None:
            continue
        by_torch, exactly, operands = made
        found = exactly(*(values[position] for position in operands))
        if found.ndim > 1 and 0 < found.size <= LARGEST and degree_of(found) <= HIGHEST:
            values.append(found)
            program.steps.append((name, by_torch, operands))
    return program, values[-1], features


def array_of(rows: Any) -> Array:
    """Polynomials in rows as an array; numpy alone would take each for a sequence."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for place in np.ndindex(array.shape):
        array[place] = rows[place[0]][place[1]]
    return array


def degree_of(array: Array) -> int:
    return max((max(0, polynomial.total_degree()) for polynomial in array.flat if is_polynomial(polynomial)), default=0)


def is_polynomial(value: Any) -> bool:
    return hasattr(value, "total_degree") and value != 0


def terms_of(value: Any, features: int) -> dict[tuple[int, ...], Any]:
    """Coefficients by exponents, also of a plain number."""
    if hasattr(value, "to_dict"):
        return {tuple(map(int, exponents)): coefficient for exponents, coefficient in value.to_dict().items()}
    return {(0,) * features: rational(value)} if value else {}


def rational(value: Any) -> Any:
    """A number, such as a float, without rounding."""
    import flint

    return flint.fmpq(*value.as_integer_ratio()) if isinstance(value, (float, int)) else flint.fmpq(value)


def evaluated(terms: dict[tuple[int, ...], Any], point: list[Any], degree: int | None = None) -> Any:
    total = rational(0)
    for exponents, coefficient in terms.items():
        if degree in (None, sum(exponents)):
            term = coefficient
            for base, exponent in zip(point, exponents, strict=True):
                term = term * base**exponent
            total += term
    return total


def compare(tally: Tally, name: str, program: Program, exact: Array, features: int, random: Random) -> None:
    polynomials = [terms_of(value, features) for value in exact.flat]
    traced = trace(program, torch.zeros(1, features))
    certificate = certify(traced)
    degree = degree_of(exact)
    tally.check(certificate.polynomial, f"{name}: refused: {certificate}")
    if not certificate.polynomial:
        return
    tally.check(certificate.degree == degree, f"{name}: degree {certificate.degree}, exactly {degree}")
    largest = max((abs(float(value)) for terms in polynomials for value in terms.values()), default=1.0)
    if degree > 0:
        found = expand(traced)
        for n in range(degree + 1):
            for output, terms in enumerate(polynomials):
                check_coefficients(tally, f"{name}: degree {n} of output {output}", found, n, output, terms, largest)
    point = [random.randrange(-16, 17) / 8 for _ in range(features)]
    if degree > 0:
        parts = orders(traced, torch.tensor([point])).double().reshape(-1, len(polynomials))
        values = [
            [float(evaluated(terms, list(map(rational, point)), n)) for terms in polynomials] for n in range(len(parts))
        ]
        size = 1 + max(abs(value) for row in values for value in row)
        apart = (parts - torch.tensor(values, dtype=torch.float64)).abs().max()
        tally.check(apart <= 1e-3 * size * largest, f"{name}: contributions are off by {apart:.2g}")
    check_bounds(tally, name, program, traced, polynomials, point, random)


def check_coefficients(tally: Tally, name: str, found: Any, n: int, output: int, terms: Any, largest: float) -> None:
    if n not in found.coefficients:
        tally.check(not any(sum(exponents) == n for exponents in terms), f"{name} is missing")
        return
    tensor = found.coefficients[n][output]
    expected = torch.zeros_like(tensor)
    for exponents, coefficient in terms.items():
        if sum(exponents) == n:
            index = [axis for axis, exponent in enumerate(exponents) for _ in range(exponent)]
            share = float(coefficient) * math.prod(map(math.factorial, exponents)) / math.factorial(n)
            for order in set(itertools.permutations(index)):
                expected[order] = share
    apart = (tensor - expected).abs().max().item() if tensor.numel() else 0.0
    tally.check(apart <= 1e-9 * largest, f"{name} is off by {apart:.2g}")


def check_bounds(
    tally: Tally, name: str, program: Program, traced: Any, polynomials: Any, centre: list[float], random: Random
) -> None:
    eps = random.choice([0.0, 0.125, 1.0])
    lower, upper = ball(torch.tensor([centre], dtype=torch.float64), eps)
    exact = bounds(traced, lower, upper, precision=None)
    ends = [(end.flatten().tolist()) for end in (exact.lower, exact.upper)]
    rounded = None if "det" in str(program) else bounds(traced, lower, upper)
    for _ in range(POINTS):
        point = [value + eps * random.randrange(-8, 9) / 8 for value in centre]
        at = list(map(rational, point))
        for low, high, terms in zip(*ends, polynomials, strict=True):
            value = evaluated(terms, at)
            inside = (low == -torch.inf or rational(low) <= value) and (high == torch.inf or value <= rational(high))
            tally.check(inside, f"{name}: {float(value)} at {point} is not between {low} and {high}")
        if rounded is not None:
            out = program(torch.tensor([point])).double()
            tally.check(
                ((out >= rounded.lower) & (out <= rounded.upper)).all(),
                f"{name}: single precision at {point} gives {out.tolist()}, bounds {rounded}",
            )


# ---- operations: each picks operands from the values there are, and says what torch and exact arithmetic do with them

Made = tuple[Callable[..., Tensor], Callable[..., Array], list[int]] | None


def some(random: Random, values: list[Array], fits: Callable[[Array], bool] = lambda value: True) -> int | None:
    places = [place for place, value in enumerate(values) if fits(value)]
    return random.choice(places[-3:]) if places else None  # rather one of the last


def numbers(random: Random, *shape: int) -> np.ndarray[Any, Any]:
    return np.array([random.randrange(-8, 9) / 4 for _ in range(int(np.prod(shape)))]).reshape(shape)


def exactly(array: np.ndarray[Any, Any]) -> Array:
    return np.vectorize(rational, otypes=[object])(array.astype(object)) if array.size else array.astype(object)


def unary(
    by_torch: Callable[[Tensor], Tensor],
    exact: Callable[[Array], Array],
    fits: Callable[[Array], bool] = lambda value: True,
) -> Callable[[Random, list[Array]], Made]:
    def make(random: Random, values: list[Array]) -> Made:
        place = some(random, values, fits)
        return None if place is None else (by_torch, exact, [place])

    return make


def binary(by_torch: Callable[..., Tensor], exact: Callable[..., Array]) -> Callable[[Random, list[Array]], Made]:
    def make(random: Random, values: list[Array]) -> Made:
        left = some(random, values)
        assert left is not None
        right = some(random, values, lambda value: value.shape == values[left].shape)
        assert right is not None
        return by_torch, exact, [left, right]

    return make


def with_constant(
    by_torch: Callable[[Tensor, Tensor], Tensor], exact: Callable[[Array, Array], Array], shape: Callable[..., Any]
) -> Callable[[Random, list[Array]], Made]:
    def make(random: Random, values: list[Array]) -> Made:
        place = some(random, values)
        assert place is not None
        given = numbers(random, *shape(values[place].shape))
        constant, tensor = exactly(given), torch.tensor(given, dtype=torch.float32)
        return lambda x: by_torch(x, tensor.to(x)), lambda x: exact(x, constant), [place]

    return make


def matrix(size: int) -> Callable[[Array], bool]:
    return lambda value: value.ndim == 3 and value.shape[1:] == (size, size)


def determinant(array: Array) -> Array:
    def minor(rows: Any) -> Any:
        if len(rows) == 1:
            return rows[0][0]
        signed = [
            (-1) ** j * rows[0][j] * minor([row[:j] + row[j + 1 :] for row in rows[1:]]) for j in range(len(rows))
        ]
        return sum(signed[1:], signed[0])

    return array_of([[minor([list(row) for row in one])] for one in array])


def variance(array: Array) -> Array:
    count = array.shape[-1]
    mean = array.sum(-1, keepdims=True) / rational(count)
    return ((array - mean) ** 2).sum(-1, keepdims=True) / rational(count - 1)


def scattered(array: Array) -> Array:
    out = array.copy()
    for position in range(array.shape[-1]):
        out[..., position // 2] = out[..., position // 2] + array[..., position]
    return out


def scatter(x: Tensor) -> Tensor:
    return x.scatter_add(-1, (torch.arange(x.shape[-1]) // 2).expand(x.shape), x)


def overwritten(x: Tensor) -> Tensor:
    out = x.clone()
    out[..., 0] = x[..., -1] * x[..., 0]
    return out


def overwritten_exactly(array: Array) -> Array:
    out = array.copy()
    out[..., 0] = array[..., -1] * array[..., 0]
    return out


def diagonal(array: Array) -> Array:
    out = np.full((*array.shape, array.shape[-1]), rational(0), dtype=object)
    for position in range(array.shape[-1]):
        out[..., position, position] = array[..., position]
    return out


def convolved(array: Array, kernel: Array) -> Array:
    width = array.shape[-1] - 1
    return sum(array[..., start : start + width] * kernel[start] for start in range(2)) if width else array * kernel[0]


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    rows = x.reshape(-1, 1, x.shape[-1])
    return F.conv1d(rows, kernel.reshape(1, 1, 2)).reshape(*x.shape[:-1], -1) if x.shape[-1] > 1 else x * kernel[0]


def at_least(size: int) -> Callable[[Array], bool]:
    return lambda value: value.shape[-1] >= size


def vectors(value: Array) -> bool:
    return value.ndim == 2


OPERATIONS: dict[str, Callable[[Random, list[Array]], Made]] = {
    "add": binary(torch.add, np.add),
    "sub": binary(torch.sub, np.subtract),
    "mul": binary(torch.mul, np.multiply),
    "lerp": binary(lambda x, y: torch.lerp(x, y, 0.25), lambda x, y: x + (y - x) * rational(0.25)),
    "lerp by itself": binary(lambda x, y: torch.lerp(x, y, x), lambda x, y: x + (y - x) * x),
    "addcmul": binary(lambda x, y: torch.addcmul(x, x, y, value=-2), lambda x, y: x - 2 * x * y),
    "hstack": binary(lambda x, y: torch.hstack([x, y]), lambda x, y: np.concatenate([x, y], 1)),
    "stack": binary(lambda x, y: torch.stack([x, y], 1), lambda x, y: np.stack([x, y], 1)),
    "add a constant": with_constant(torch.add, np.add, lambda shape: shape[-1:]),
    "scale": with_constant(torch.mul, np.multiply, lambda shape: shape[-1:]),
    "linear": with_constant(lambda x, w: x @ w, lambda x, w: x @ w, lambda shape: (shape[-1], 3)),
    "tensordot": with_constant(lambda x, w: torch.tensordot(x, w, 1), lambda x, w: x @ w, lambda shape: (shape[-1], 2)),
    "conv1d": with_constant(convolve, convolved, lambda shape: (2,)),
    "neg": unary(torch.neg, np.negative),
    "from 3": unary(lambda x: 3 - x, lambda x: rational(3) - x),
    "halve": unary(lambda x: x / -2, lambda x: x / rational(-2)),
    "square": unary(torch.square, lambda x: x * x),
    "cube": unary(lambda x: x**3, lambda x: x * x * x),
    "sum": unary(lambda x: x.sum(-1, keepdim=True), lambda x: x.sum(-1, keepdims=True)),
    "mean": unary(lambda x: x.mean(-1, keepdim=True), lambda x: x.sum(-1, keepdims=True) / rational(x.shape[-1])),
    "prod": unary(lambda x: x.prod(-1, keepdim=True), lambda x: x.prod(-1, keepdims=True), at_least(2)),
    "cumsum": unary(lambda x: x.cumsum(-1), lambda x: np.cumsum(x, -1)),
    "cumprod": unary(lambda x: x.cumprod(-1), lambda x: np.cumprod(x, -1)),
    "var": unary(lambda x: x.var(-1, keepdim=True), variance, at_least(2)),
    "diff": unary(lambda x: x.diff(dim=-1), lambda x: np.diff(x, axis=-1), at_least(2)),
    "flip": unary(lambda x: x.flip(-1), lambda x: np.flip(x, -1)),
    "roll": unary(lambda x: x.roll(1, -1), lambda x: np.roll(x, 1, -1)),
    "flatten": unary(lambda x: x.flatten(1), lambda x: x.reshape(1, -1)),
    "transpose": unary(lambda x: x.mT, lambda x: np.swapaxes(x, -1, -2), lambda value: value.ndim == 3),
    "outer": unary(lambda x: x[:, :, None] * x[:, None, :], lambda x: x[:, :, None] * x[:, None, :], vectors),
    "einsum": unary(
        lambda x: torch.einsum("bi,bj,bi->bj", x, x, x), lambda x: (x * x).sum(1, keepdims=True) * x, vectors
    ),
    "matrix product": unary(lambda x: x @ x.mT, lambda x: x @ np.swapaxes(x, -1, -2), lambda value: value.ndim == 3),
    "cross": unary(
        lambda x: torch.linalg.cross(x[..., :3], x[..., -3:]),
        lambda x: (
            np.roll(x[..., :3], -1, -1) * np.roll(x[..., -3:], -2, -1)
            - np.roll(x[..., :3], -2, -1) * np.roll(x[..., -3:], -1, -1)
        ),
        at_least(4),
    ),
    "vecdot": unary(lambda x: torch.linalg.vecdot(x, x)[..., None], lambda x: (x * x).sum(-1, keepdims=True)),
    "det of 2": unary(lambda x: torch.linalg.det(x)[:, None], determinant, matrix(2)),
    "det of 3": unary(lambda x: torch.linalg.det(x)[:, None], determinant, matrix(3)),
    "diag_embed": unary(torch.diag_embed, diagonal, vectors),
    "scatter_add": unary(scatter, scattered),
    "overwrite": unary(overwritten, overwritten_exactly),
    "pad": unary(
        lambda x: F.pad(x, (1, 0), value=1.5),
        lambda x: np.concatenate([np.full((*x.shape[:-1], 1), rational(1.5), dtype=object), x], -1),
    ),
    "take": unary(lambda x: x[..., [-1, 0]], lambda x: x[..., [-1, 0]]),
}
