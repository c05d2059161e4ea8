"""Monomials, and how they are written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Monomial", "Table", "monomial_table", "variables", "write_out"]

T = TypeVar("T")


@dataclass(frozen=True)
class Monomial:
    """``coefficient * z[i] * z[j] * ...`` of one output, the indices in ascending order (repeated for powers).

    >>> Monomial(1, (0, 0, 3), -2.5)
    output 1: -2.5 z0^2 z3
    """

    output: int
    indices: tuple[int, ...]
    coefficient: float

    def __str__(self) -> str:
        return f"{self.coefficient:+.4g} {variables(self.indices)}"

    def __repr__(self) -> str:
        return f"output {self.output}: {self}"


class Table(list[T], Generic[T]):
    """A list that prints as a table, one item in each line.

    Args:
        items: What the list holds.
        columns: For each column its header and the text of an item.

    Example:
        >>> Table([2, 10], {"x": str, "x squared": lambda x: str(x * x)})
         x  x squared
         2          4
        10        100
    """

    def __init__(self, items: Iterable[T], columns: dict[str, Callable[[T], str]]) -> None:
        super().__init__(items)
        self._columns = columns

    def __repr__(self) -> str:
        rows = [list(self._columns), *([text(item) for text in self._columns.values()] for item in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def monomial_table(monomials: Iterable[Monomial]) -> Table[Monomial]:
    """Monomials as a table.

    >>> monomial_table([Monomial(0, (0, 1), 0.5), Monomial(12, (3,), -4.0)])
    output  coefficient  monomial
         0         +0.5     z0 z1
        12           -4        z3
    """
    return Table(
        monomials,
        {
            "output": lambda monomial: str(monomial.output),
            "coefficient": lambda monomial: f"{monomial.coefficient:+.4g}",
            "monomial": lambda monomial: variables(monomial.indices),
        },
    )


def variables(indices: tuple[int, ...], *, latex: bool = False) -> str:
    """The variables of a monomial: ``z0^2 z3``.

    >>> variables((0, 0, 3)), variables((0, 0, 3), latex=True)
    ('z0^2 z3', 'z_{0}^{2} z_{3}')
    """
    powers = [(index, len(list(group))) for index, group in itertools.groupby(indices)]
    if latex:
        return " ".join(f"z_{{{index}}}" + (f"^{{{power}}}" if power > 1 else "") for index, power in powers)
    return " ".join(f"z{index}" + (f"^{power}" if power > 1 else "") for index, power in powers)


def write_out(constant: float, monomials: list[Monomial], *, digits: int, more: bool = False) -> str:
    """A sum of monomials in LaTeX; ``more`` adds dots at the end."""
    text = f"{constant:.{digits}g}" if constant else ""
    for monomial in monomials:
        if monomial.coefficient == 0:
            continue
        sign = "-" if monomial.coefficient < 0 else "+"
        size = f"{abs(monomial.coefficient):.{digits}g}"
        term = variables(monomial.indices, latex=True)
        term = term if size == "1" else f"{size} {term}"
        text = f"{text} {sign} {term}" if text else (f"-{term}" if sign == "-" else term)
    if more:
        return rf"{text} + \cdots" if text else r"\cdots"
    return text or "0"
