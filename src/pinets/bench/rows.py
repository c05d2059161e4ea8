"""What benchmarks have in common: rows that are told as they come, ratios to a baseline, and goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Comparison", "collect", "goals_reached"]

Row = TypeVar("Row")


@dataclass(frozen=True)
class Comparison:
    """What a case came to, in seconds or bytes, and the baseline; less is better."""

    case: Any  # whose goal is the largest ratio that we want, or None
    value: float
    baseline: float

    @property
    def ratio(self) -> float:
        return self.value / self.baseline

    @property
    def reached(self) -> bool | None:
        return None if self.case.goal is None else self.ratio <= self.case.goal

    def __str__(self) -> str:
        text = f"{self.case}: {self.ratio:.3f} of the baseline's{self.remark()}"
        if self.case.goal is not None:
            text += f"; goal {self.case.goal:.3f}{'' if self.reached else ', missed'}"
        return text

    def remark(self) -> str:
        """What a row says of itself beside the ratio."""
        return ""


def goals_reached(answers: Iterable[bool | None]) -> str:
    """A summary of which goals were reached; None, where there is no goal, does not count.

    >>> goals_reached([True, None, False])
    '1 of 2 goals reached'
    """
    wanted = [answer for answer in answers if answer is not None]
    return f"{sum(wanted)} of {len(wanted)} goals reached"


def collect(rows: Iterable[Row], on_row: Callable[[Row], None] | None) -> list[Row]:
    """The rows, each told as soon as it is measured."""
    kept = []
    for row in rows:
        kept.append(row)
        if on_row is not None:
            on_row(row)
    return kept
