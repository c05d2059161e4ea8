"""What benchmarks have in common: rows that are told as they come, ratios to a baseline, and goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

__all__ = ["Comparison", "Measured", "Results", "collect"]


@dataclass(frozen=True)
class Measured:
    """A row; subclasses add what was measured."""

    @property
    def reached(self) -> bool | None:
        """Whether it reached its goal; None where it has none."""
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Row = TypeVar("Row", bound=Measured)


@dataclass(frozen=True)
class Comparison(Measured):
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
        return super().to_json() | told


@dataclass(frozen=True)
class Results(Generic[Row]):
    """The rows that a benchmark measured, the machine, and what was chosen for all of them."""

    benchmark: str
    rows: list[Row]
    machine: dict[str, object]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        """How many goals were reached; rows without one do not count."""
        wanted = [row.reached for row in self.rows if row.reached is not None]
        return f"{sum(wanted)} of {len(wanted)} goals reached" if wanted else f"{len(self.rows)} rows, none has a goal"

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "machine": self.machine,
            **self.settings,
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
