"""A fitted polynomial with the columns' own names and units, its terms ranked by what they explain on the data."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from pinets.algebra import expand
from pinets.algebra.domains.dense import monomials_of
from pinets.algebra.monomials import Table
from pinets.estimators.scaling import Scaling, fold
from pinets.estimators.terms import Terms
from pinets.polynomial import Polynomial

__all__ = ["Formula", "Term", "Variables", "all_monomials", "formula_centers", "read_formula"]

_SHOWN = 12  # terms in a table
_MOST_SEARCHED = 2_000_000  # monomials that are listed; of more, only the largest are
_MOST_TERMS = 2000
_NEGLIGIBLE = 1e-8  # of the formula's deviation: what an exact fit leaves on terms that the data do not have


@dataclass(frozen=True)
class Variables:
    """What the columns of a polynomial are called, and what is known of them."""

    names: list[str]
    groups: np.ndarray  # columns with the same number come from one raw column
    indicators: np.ndarray  # which columns are 0 or 1
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
    """

    target: str
    constant: float
    terms: list[Term]
    variables: Variables
    centers: np.ndarray

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
        """The same with so many significant digits."""
        terms = [replace(term, coefficient=_round(term.coefficient, digits)) for term in self.terms]
        return replace(self, constant=_round(self.constant, digits), terms=terms)

    def product(self, term: Term) -> str:
        """The columns of a term: ``age * (income - 3.9)^2``."""
        return " * ".join(self._factors(term, self.names, "^{}"))

    def _factors(self, term: Term, names: Sequence[str], power: str) -> list[str]:
        """The columns of a term under these names, minus their centers, with the powers written like ``power``."""
        out = []
        for column, run in itertools.groupby(term.columns):
            center, count = self.centers[column], len(list(run))
            sign = "-" if center > 0 else "+"
            factor = f"({names[column]} {sign} {abs(center):.10g})" if center else names[column]
            out.append(factor + power.format(count) if count > 1 else factor)
        return out

    def text(self, digits: int = 3, top: int | None = None) -> str:
        """The formula in one line, such as ``price = 2.1 + 0.43 * rooms``."""
        shown = self.terms if top is None else self.terms[:top]
        out = f"{self.target} = {self.constant:.{digits}g}"
        for term in shown:
            sign = "-" if term.coefficient < 0 else "+"
            out += f" {sign} {abs(term.coefficient):.{digits}g} * {self.product(term)}"
        return out + (" + ..." if len(shown) < len(self.terms) else "")

    def to_sympy(self, digits: int | None = None) -> Any:
        """A SymPy expression in symbols with the names of the columns."""
        import sympy

        symbols = [sympy.Symbol(name) for name in self.names]
        value = self if digits is None else self.rounded(digits)
        terms = [
            sympy.Float(term.coefficient)
            * sympy.prod([symbols[column] - _exact(self.centers[column]) for column in term.columns])
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
        return out + (r" + \cdots" if len(shown) < len(self.terms) else "")

    def to_numpy(self, digits: int | None = None, function: str = "predict") -> str:
        """Python code of a function of a mapping from names to arrays or numbers, which needs no pinets."""
        value = self if digits is None else self.rounded(digits)
        used = sorted({column for term in value.terms for column in term.columns})
        lines = [f"def {function}(columns):"]
        for column in used:
            lines.append(f"    x{column} = columns[{self.names[column]!r}] - {float(self.centers[column])!r}")
        lines.append(f"    return (\n        {float(value.constant)!r}")
        for term in value.terms:
            product = " * ".join(f"x{column}" for column in term.columns)
            lines.append(f"        + {float(term.coefficient)!r} * {product}")
        return "\n".join([*lines, "    )", ""])

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
        return [f"{name}: compared with {level}" for name, level in self.references.items()]

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
    *,
    target: str,
    output: int,
    center: bool,
) -> Formula:
    """The formula of one output of a network of standardised columns.

    Args:
        network: From standardised columns to standardised targets.
        scaling: Of the columns, in their own units.
        target_scaling: Of the targets; None for classes.
        variables: Names and kinds of the columns.
        rows: Data in the units of the columns, to rank by.
        target: What the output is called.
        output: Which output.
        center: Whether numbers are taken from (rounded) means, which makes terms nearly independent of each other.
    """
    scaling = scaling.to("cpu", torch.float64)
    indicators = variables.indicators | np.isin(rows, (0.0, 1.0)).all(axis=0)
    centers = formula_centers(scaling, indicators, center)
    shifted = replace(scaling, mean=scaling.mean - torch.from_numpy(centers))
    found = _monomials(fold(network, shifted, target_scaling), scaling.scale.numpy(), output)
    constant, products, coefficients = found
    merged: dict[tuple[int, ...], float] = {}
    for product, coefficient in zip(products, coefficients, strict=True):
        known = _merge(product, variables.groups, indicators)
        if known is not None:
            merged[known] = merged.get(known, 0.0) + coefficient
    kept = Terms.of(list(merged))
    weights = np.array([merged[product] for product in kept])
    values = kept.values(rows - centers) * weights
    whole = values.sum(axis=1)
    variance = whole.var()
    centred = values - values.mean(axis=0)
    share = centred.T @ (whole - whole.mean()) / len(rows) / variance if variance > 0 else np.zeros(len(kept))
    terms = [
        Term(product, float(weight), float(deviation), float(part))
        for product, weight, deviation, part in zip(kept, weights, values.std(axis=0), share, strict=True)
        if weight != 0 and not 0 < deviation < _NEGLIGIBLE * math.sqrt(variance)
    ]
    terms.sort(key=lambda term: -term.deviation)
    return Formula(target, constant, terms, replace(variables, indicators=indicators), centers)


def formula_centers(scaling: Scaling, indicators: np.ndarray, center: bool) -> np.ndarray:
    """What a formula subtracts from every column: its mean, rounded to about a hundredth of the deviation, or zero."""
    if not center:
        return np.zeros(len(scaling.mean))
    rounded = [_center(*pair) for pair in zip(scaling.mean.tolist(), scaling.scale.tolist(), strict=True)]
    return np.where(indicators | scaling.ignored.cpu().numpy(), 0.0, rounded)


def _monomials(
    network: Polynomial, scale: np.ndarray, output: int, most: int = _MOST_TERMS
) -> tuple[float, list[tuple[int, ...]], np.ndarray]:
    """The constant, and the products of an output with their coefficients, the largest if there are very many."""
    features = len(scale)
    example = torch.zeros(1, features, dtype=torch.float64)
    if math.comb(features + network.order, network.order) > _MOST_SEARCHED:
        found = expand(network, example, top=_MOST_TERMS)
        largest = [monomial for monomial in found.top(_MOST_TERMS) if monomial.output == output]
        products = [monomial.indices for monomial in largest]
        return (
            float(found.coefficients[0][output]),
            products,
            np.array([monomial.coefficient for monomial in largest]),
        )
    found = expand(network, example)
    products, coefficients = [], []
    for degree in range(1, found.degree + 1):
        columns, values = (each.numpy() for each in monomials_of(found.coefficients[degree][output : output + 1]))
        size = np.abs(values[0]) * scale[columns].prod(axis=1)
        used = np.argsort(-size, kind="stable")[: min(most, np.count_nonzero(values))]
        products += list(map(tuple, columns[used].tolist()))
        coefficients.append(values[0, used])
    together = np.concatenate(coefficients) if coefficients else np.zeros(0)
    return float(found.coefficients[0][output]), products, together


def all_monomials(network: Polynomial, features: int, output: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All products of an output with their coefficients."""
    if math.comb(features + network.order, network.order) > _MOST_SEARCHED:
        raise ValueError(f"a polynomial of order {network.order} in {features} columns has too many products to list")
    _, products, coefficients = _monomials(network, np.ones(features), output, most=_MOST_SEARCHED)
    return products, coefficients


def _merge(product: Sequence[int], groups: np.ndarray, indicators: np.ndarray) -> tuple[int, ...] | None:
    """The product with powers of indicators merged; None if it is always zero: two categories of one column."""
    out: list[int] = []
    for column in product:
        if indicators[column]:
            if column in out:
                continue
            if any(indicators[other] and groups[other] == groups[column] for other in out):
                return None
        out.append(column)
    return tuple(out)


def _center(mean: float, scale: float) -> float:
    """The mean, rounded to about a hundredth of the deviation."""
    if not (math.isfinite(mean) and scale > 0):
        return 0.0
    return float(round(mean, 1 - math.floor(math.log10(scale))))


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _exact(number: float) -> Any:
    import sympy

    return sympy.Float(float(number)) if number else sympy.Integer(0)


_ESCAPED = str.maketrans({"\\": r"\textbackslash{}", **{character: f"\\{character}" for character in "_%&#${}"}})


def _tex(name: str) -> str:
    return name.translate(_ESCAPED)


def _tex_number(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
