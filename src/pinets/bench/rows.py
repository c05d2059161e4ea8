"""What benchmarks have in common: rows that are told as they come, ratios to a baseline, and goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Comparison", "Results", "collect"]


class Measured(Protocol):
    """A row that may have a goal."""

    @property
    def reached(self) -> bool | None: ...

    def to_json(self) -> dict[str, Any]: ...


Row = TypeVar("Row")
MeasuredRow = TypeVar("MeasuredRow", bound=Measured)


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

    def to_json(self) -> dict[str, Any]:
        told = {"case": str(self.case), "goal": self.case.goal, "ratio": self.ratio, "reached": self.reached}
        return asdict(self) | told


@dataclass(frozen=True)
class Results(Generic[MeasuredRow]):
    """The rows that a benchmark measured, and the machine."""

    benchmark: str
    rows: list[MeasuredRow]
    machine: dict[str, object]

    def summary(self) -> str:
        """Which goals were reached; rows without one do not count."""
        wanted = [row.reached for row in self.rows if row.reached is not None]
        return f"{sum(wanted)} of {len(wanted)} goals reached"

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "machine": self.machine,
            "summary": self.summary(),
            "rows": [row.to_json() for row in self.rows],
        }


def collect(rows: Iterable[Row], on_row: Callable[[Row], None] | None) -> list[Row]:
    """The rows, each told as soon as it is measured."""
    kept = []
    for row in rows:
        kept.append(row)
        if on_row is not None:
            on_row(row)
    return kept
