"""A fitted polynomial with the columns' own names and units, its terms ranked by what they explain on the data."""

from __future__ import annotations

import html
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import gen_batches
from torch import Tensor

from pinets.algebra import expand
from pinets.algebra.domains.dense import monomials_of
from pinets.algebra.monomials import Table
from pinets.estimators.scaling import Scaling, fold
from pinets.estimators.terms import Terms
from pinets.polynomial import Polynomial

__all__ = ["Formula", "Term", "Variables", "all_monomials", "formula_centers", "read_formula"]

_SHOWN = 12  # terms in a table
_MOST_SEARCHED = 2_000_000  # monomials that are listed; of more, only the largest are
_MOST_TERMS = 50_000  # terms of one degree
_MOST_FOUND = 2000  # monomials that are searched for if there are too many to list
_CELLS = 4_000_000  # numbers of products made at a time (32 MB)
_NEGLIGIBLE = 1e-8  # share of the formula's deviation: rounding on terms that the data do not have
_LARGEST_EXPONENT = 290  # decimal exponent of products of columns; float64 holds up to 308


@dataclass(frozen=True)
class Variables:
    """The names of a polynomial's columns, and their kinds."""

    names: list[str]
    groups: np.ndarray  # columns with the same number come from one raw column
    indicators: np.ndarray  # of categories and missing numbers: those of one group are never 1 together
    zero_or_one: np.ndarray  # which columns are 0 or 1, indicators or not
    references: Mapping[str, Any] = field(default_factory=dict)  # of raw columns, the category without an indicator


@dataclass(frozen=True)
class Term:
    """One product of columns.

    Attributes:
        columns: Their numbers in ascending order, repeated for powers.
        coefficient: In the units of the target per units of the columns.
        deviation: The standard deviation of the term on the data, in units of the target.
        share: The term's covariance with the whole formula, as a share of its variance; all shares sum to one.
    """

    columns: tuple[int, ...]
    coefficient: float
    deviation: float = math.nan
    share: float = math.nan


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """A polynomial of named columns: ``constant + sum of coefficient * product of (column - center)``.

    Terms are ordered by their standard deviation on the data, the largest first. Printing it shows a table; in a
    notebook it is one.

    Attributes:
        target: What it is a formula of.
        constant: The value where every column is at its center.
        terms: A list of :class:`Term`.
        variables: The names of the columns, and what is known of them.
        centers: What is subtracted from each column before it is multiplied.
        omitted: How many terms are left out, the smallest of too many to list; unless 0, the formula is not exactly
            the prediction.
    """

    target: str
    constant: float
    terms: list[Term]
    variables: Variables
    centers: np.ndarray
    omitted: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.variables.names

    @property
    def references(self) -> Mapping[str, Any]:
        """For columns of categories, the category that has no term: all others are compared with it."""
        return self.variables.references

    def __len__(self) -> int:
        return len(self.terms)

    def __call__(self, columns: Any) -> np.ndarray:
        """Evaluate it at rows of the columns (encoded, in the order of ``names``)."""
        shifted = np.asarray(columns, dtype=np.float64) - self.centers
        out = np.full(len(shifted), self.constant)
        for term in self.terms:
            out += term.coefficient * shifted[:, term.columns].prod(axis=1)
        return out

    def top(self, count: int) -> Formula:
        """The formula with its first terms only; for a fit with few terms use the estimator's ``simplify``."""
        return replace(self, terms=self.terms[:count])

    def rounded(self, digits: int = 3) -> Formula:
        """The formula rounded to this many significant digits."""
        terms = [replace(term, coefficient=_round(term.coefficient, digits)) for term in self.terms]
        return replace(self, constant=_round(self.constant, digits), terms=terms)

    def product(self, term: Term) -> str:
        """The columns of a term: ``age * (income - 3.9)^2``."""
        return " * ".join(self._factors(term, self.names, "^{}"))

    def _factors(self, term: Term, names: Sequence[str], power: str) -> list[str]:
        """The columns of a term under these names, minus their centers, with the powers written like ``power``."""
        out = []
        for column, run in itertools.groupby(term.columns):
            less, count = _less(self.centers[column], _shortest), len(list(run))
            factor = f"({names[column]}{less})" if less else names[column]
            out.append(factor + power.format(count) if count > 1 else factor)
        return out

    def text(self, digits: int = 3, top: int | None = None) -> str:
        """The formula in one line, such as ``price = 2.1 + 0.43 * rooms``."""
        shown = self.terms if top is None else self.terms[:top]
        out = f"{self.target} = {self.constant:.{digits}g}"
        for term in shown:
            sign = "-" if term.coefficient < 0 else "+"
            out += f" {sign} {abs(term.coefficient):.{digits}g} * {self.product(term)}"
        return out + (" + ..." if len(shown) < len(self.terms) or self.omitted else "")

    def to_sympy(self, digits: int | None = None) -> Any:
        """A SymPy expression in symbols with the names of the columns."""
        import sympy

        factors = [
            sympy.Symbol(name) - (sympy.Float(float(center)) if center else 0)
            for name, center in zip(self.names, self.centers, strict=True)
        ]
        value = self if digits is None else self.rounded(digits)
        terms = [
            sympy.Float(term.coefficient) * sympy.prod([factors[column] for column in term.columns])
            for term in value.terms
        ]
        return sympy.Add(sympy.Float(value.constant), *terms)

    def latex(self, digits: int = 3, top: int | None = None) -> str:
        r"""The formula in LaTeX, names as text."""
        shown = self.terms if top is None else self.terms[:top]
        names = [rf"\text{{{_tex(name)}}}" for name in self.names]
        out = rf"\text{{{_tex(self.target)}}} = {_tex_number(self.constant, digits)}"
        for term in shown:
            factors = self._factors(term, names, "^{{{}}}")
            sign = "-" if term.coefficient < 0 else "+"
            out += rf" {sign} {_tex_number(abs(term.coefficient), digits)}\, " + r" \cdot ".join(factors)
        return out + (r" + \cdots" if len(shown) < len(self.terms) or self.omitted else "")

    def to_numpy(self, digits: int | None = None, function: str = "predict") -> str:
        """Python code of a function of a mapping from names to arrays or numbers, which needs no pinets."""
        value = self if digits is None else self.rounded(digits)
        used = sorted({column for term in value.terms for column in term.columns})
        lines = [f"def {function}(columns):", *(f"    # {note}" for note in self._omission())]
        for column in used:
            lines.append(f"    x{column} = columns[{self.names[column]!r}]{_less(self.centers[column], repr)}")
        lines.append(f"    value = {float(value.constant)!r}")
        for term in value.terms:  # one line each: Python cannot read a single sum of thousands
            product = " * ".join(f"x{column}" for column in term.columns)
            lines.append(f"    value = value + {float(term.coefficient)!r} * {product}")
        return "\n".join([*lines, "    return value", ""])

    def table(self, top: int | None = None, digits: int = 3) -> Table[Term]:
        """The terms as a table: coefficient, product, its deviation on the data and its share of the variance."""
        return Table(
            self.terms if top is None else self.terms[:top],
            {
                "coefficient": lambda term: f"{term.coefficient:+.{digits}g}",
                "term": lambda term: self.product(term),
                "deviation": lambda term: f"{term.deviation:.{digits}g}",
                "share": lambda term: f"{100 * term.share:z.1f} %",
            },
        )

    def __repr__(self) -> str:
        head = f"{self.target} = {self.constant:.4g} + the sum of {len(self.terms)} terms"
        if len(self.terms) > _SHOWN:
            head += f", the largest {_SHOWN} of which are"
        return "\n".join([head, repr(self.table(_SHOWN)), *self._notes()])

    def _notes(self) -> list[str]:
        return [*self._omission(), *(f"{name}: compared with {level}" for name, level in self.references.items())]

    def _omission(self) -> list[str]:
        return (
            [f"not exactly the prediction: up to {self.omitted:,} smaller terms are left out"] if self.omitted else []
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{term.coefficient:+.3g}</td><td style='text-align:left'>{html.escape(self.product(term))}</td>"
            f"<td>{term.deviation:.3g}</td><td>{100 * term.share:z.1f}&nbsp;%</td></tr>"
            for term in self.terms[:_SHOWN]
        )
        more = f"<p>and {len(self.terms) - _SHOWN} more terms</p>" if len(self.terms) > _SHOWN else ""
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return (
            f"<p><b>{html.escape(self.target)}</b> = {self.constant:.4g} + the sum of</p><table><tr>"
            f"<th>coefficient</th><th style='text-align:left'>term</th><th>deviation</th><th>share</th></tr>"
            f"{rows}</table>{more}{notes}"
        )


def read_formula(
    network: Polynomial,
    scaling: Scaling,
    target_scaling: Scaling | None,
    variables: Variables,
    rows: np.ndarray,
    sample: np.ndarray,
    *,
    target: str,
    output: int,
    center: bool,
) -> Formula:
    """The formula of one output of a network of standardised columns.

    Args:
        network: From standardised columns to standardised targets.
        scaling: The scaling of the columns, in their own units.
        target_scaling: The scaling of the targets; None for classes.
        variables: Names and kinds of the columns.
        rows: Data in the units of the columns, to rank by.
        sample: Rows of ``fit`` in the same units: a term is left out if it is negligible in both.
        target: What the output is called.
        output: Which output.
        center: Whether numbers are taken from (rounded) means, which makes terms nearly independent of each other.
    """
    scaling = scaling.to("cpu", torch.float64)
    centers = formula_centers(scaling, variables.zero_or_one, center)
    shift = scaling.mean - torch.from_numpy(centers)
    _check_units(scaling, shift, variables.names, network.order)
    # in deviations, where sizes of coefficients can be compared
    standard = replace(scaling, mean=shift / scaling.scale, scale=torch.ones_like(scaling.scale))
    found = _monomials(fold(network, standard, None), scaling.scale.numpy(), output)
    if found.omitted:
        warnings.warn(
            f"the polynomial has too many terms: the formula lacks up to {found.omitted:,}, the smallest, and is not "
            f"exactly the prediction; simplify finds a polynomial with few terms",
            stacklevel=3,
        )
    merged: dict[tuple[int, ...], float] = {}
    for product, coefficient in zip(found.products, found.coefficients.tolist(), strict=True):
        known = _merge(product, variables)
        if known is not None:
            merged[known] = merged.get(known, 0.0) + coefficient
    scale, mean = 1.0, 0.0
    if target_scaling is not None:  # last: squares of the targets, which the ranking takes, could overflow
        scale, mean = (each[output].item() for each in (target_scaling.scale, target_scaling.mean))
    terms = [
        replace(term, coefficient=scale * term.coefficient, deviation=scale * term.deviation)
        for term in _ranked(merged, rows - centers, sample - centers)
    ]
    return Formula(target, scale * found.constant + mean, terms, variables, centers, found.omitted)


def _ranked(coefficients: Mapping[tuple[int, ...], float], rows: np.ndarray, sample: np.ndarray) -> list[Term]:
    """The terms by their deviation in the rows, without those that are negligible both there and in a sample."""
    kept = list(Terms.of(list(coefficients)))
    weights = np.array([coefficients[product] for product in kept])
    blocks = list(gen_batches(len(kept), max(1, _CELLS // (len(rows) + len(sample))))) if kept else []

    def values(block: slice, columns: np.ndarray) -> np.ndarray:
        return Terms.of(kept[block]).values(columns) * weights[block]

    whole = np.zeros(len(rows))
    for block in blocks:
        whole += values(block, rows).sum(axis=1)
    variance = whole.var()
    terms = []
    for block in blocks:
        here, there = values(block, rows), values(block, sample)
        deviation = here.std(axis=0)
        share = (here - here.mean(axis=0)).T @ (whole - whole.mean()) / len(rows) / (variance or 1.0)
        largest = np.maximum(np.abs(here).max(axis=0), np.abs(there).max(axis=0))
        negligible = (weights[block] == 0) | ((deviation > 0) & (largest < _NEGLIGIBLE * math.sqrt(variance)))
        terms += [
            Term(product, *map(float, numbers))
            for product, left_out, *numbers in zip(
                kept[block], negligible, weights[block], deviation, share, strict=True
            )
            if not left_out
        ]
    return sorted(terms, key=lambda term: -term.deviation)


def _check_units(scaling: Scaling, shift: Tensor, names: Sequence[str], order: int) -> None:
    """Refuse columns whose products float64 cannot hold."""
    largest = torch.maximum(scaling.scale, shift.abs())
    exponents = torch.maximum(largest.log10(), -scaling.scale.log10()).masked_fill(scaling.ignored, 0)
    limit = _LARGEST_EXPONENT / order
    if not (exponents <= limit).all():
        worst = int(exponents.argmax())
        raise ValueError(
            f"a formula of order {order} takes columns with a size and deviation of 1e-{limit:.0f} to 1e{limit:.0f}, "
            f"got {largest[worst]:.3g} and {scaling.scale[worst]:.3g} for {names[worst]!r}; fit to it in other units"
        )


def formula_centers(scaling: Scaling, zero_or_one: np.ndarray, center: bool) -> np.ndarray:
    """The center of every column: its mean, rounded to about a hundredth of the deviation, or zero."""
    if not center:
        return np.zeros(len(scaling.mean))
    rounded = [_center(*pair) for pair in zip(scaling.mean.tolist(), scaling.scale.tolist(), strict=True)]
    return np.where(zero_or_one | scaling.ignored.cpu().numpy(), 0.0, rounded)


@dataclass(frozen=True)
class _Found:
    """The monomials of an output."""

    constant: float
    products: list[tuple[int, ...]]
    coefficients: np.ndarray
    omitted: int  # at most this many others are not zero


def _monomials(network: Polynomial, scale: np.ndarray, output: int, most: int = _MOST_TERMS) -> _Found:
    """The monomials of an output, the largest if there are very many.

    Args:
        network: A polynomial of columns divided by ``scale``.
        scale: The coefficients returned are for columns that are not divided.
        output: Which output.
        most: How many monomials of one degree to keep.
    """
    features = len(scale)
    example = torch.zeros(1, features, dtype=torch.float64)
    if math.comb(features + network.order, network.order) > _MOST_SEARCHED:
        found = expand(network, example, top=_MOST_FOUND)
        largest = found.top(_MOST_FOUND)
        own = [monomial for monomial in largest if monomial.output == output]
        complete = len(largest) < _MOST_FOUND
        return _Found(
            float(found.coefficients[0][output]),
            [monomial.indices for monomial in own],
            np.array([monomial.coefficient / scale[list(monomial.indices)].prod() for monomial in own]),
            0 if complete else math.comb(features + network.order, network.order) - 1 - len(own),
        )
    found = expand(network, example)
    products, coefficients, omitted = [], [np.zeros(0)], 0
    for degree in range(1, found.degree + 1):
        columns, values = (each.numpy() for each in monomials_of(found.coefficients[degree][output : output + 1]))
        count = int(np.count_nonzero(values))
        used = np.argsort(-np.abs(values[0]), kind="stable")[: min(most, count)]
        products += list(map(tuple, columns[used].tolist()))
        coefficients.append(values[0, used] / scale[columns[used]].prod(axis=1))
        omitted += count - len(used)
    return _Found(float(found.coefficients[0][output]), products, np.concatenate(coefficients), omitted)


def all_monomials(network: Polynomial, features: int, output: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All products of an output with their coefficients."""
    if math.comb(features + network.order, network.order) > _MOST_SEARCHED:
        raise ValueError(f"a polynomial of order {network.order} in {features} columns has too many products to list")
    found = _monomials(network, np.ones(features), output, most=_MOST_SEARCHED)
    return found.products, found.coefficients


def _merge(product: Sequence[int], variables: Variables) -> tuple[int, ...] | None:
    """The product with powers of 0 and 1 merged; None if it is always zero: two categories of one column."""
    out: list[int] = []
    groups, indicators = variables.groups, variables.indicators
    for column in product:
        if variables.zero_or_one[column] and column in out:
            continue
        if indicators[column] and any(indicators[other] and groups[other] == groups[column] for other in out):
            return None
        out.append(column)
    return tuple(out)


def _center(mean: float, scale: float) -> float:
    """The mean, rounded to about a hundredth of the deviation."""
    if not (math.isfinite(mean) and scale > 0):
        return 0.0
    return float(round(mean, 1 - math.floor(math.log10(scale))))


def _less(center: float, write: Callable[[float], str]) -> str:
    """What is subtracted from a column, as `` - 3.9`` or `` + 3.9``; nothing for zero."""
    return f" {'-' if center > 0 else '+'} {write(abs(float(center)))}" if center else ""


def _shortest(number: float) -> str:
    """The number with up to ten digits, or as many as it takes to be exact."""
    short = f"{number:.10g}"
    return short if float(short) == number else repr(float(number))


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


_ESCAPED = str.maketrans(
    {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {character: f"\\{character}" for character in "_%&#${}"}
)


def _tex(name: str) -> str:
    return name.translate(_ESCAPED)


def _tex_number(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
