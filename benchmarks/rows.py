"""Rows of figures with their goals, the options that timed subjects share, and the table and JSON made of them."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import torch

from benchmarks.measuring import machine
from pinets._files import write_bytes
from pinets._memory import keep_memory
from pinets.cli.parser import UsageError

__all__ = ["Goal", "Row", "add_timing", "choose", "goals_reached", "measure_subject"]

Case = TypeVar("Case")


@dataclass(frozen=True)
class Goal:
    """The least or the largest value that a figure should have.

    >>> Goal("rate", at_least=0.85).reached_by(0.9), Goal("time", at_most=1.0).reached_by(1.1)
    (True, False)
    """

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def reached_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = [(">=", self.at_least), ("<=", self.at_most)]
        return " and ".join(f"{self.figure} {sign} {value:.4g}" for sign, value in bounds if value is not None)


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        case: What was measured.
        figures: The values by name, in the order of the table's columns.
        goals: What some of the figures should be.
        details: What else the JSON file keeps.
    """

    case: str
    figures: Mapping[str, float]
    goals: tuple[Goal, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missed(self) -> list[Goal]:
        return [goal for goal in self.goals if not goal.reached_by(self.figures[goal.figure])]

    def to_json(self) -> dict[str, Any]:
        goals = [asdict(goal) | {"reached": goal not in self.missed} for goal in self.goals]
        return {"case": self.case, "figures": dict(self.figures), "goals": goals, **self.details}


def goals_reached(rows: Sequence[Row]) -> str:
    """How many goals were reached.

    >>> goals_reached([Row("a", {"rate": 0.9}, (Goal("rate", at_least=0.85),)), Row("b", {"rate": 0.1})])
    '1 of 1 goals reached'
    """
    wanted = sum(len(row.goals) for row in rows)
    return f"{wanted - sum(len(row.missed) for row in rows)} of {wanted} goals reached"


# What subjects have in common


def add_timing(parser: argparse.ArgumentParser, *, seconds: float, quick: str) -> None:
    """Add ``--quick``, ``--only``, ``--seconds`` and ``--compile``.

    Args:
        parser: Of the subject.
        seconds: The default time for a case.
        quick: What ``--quick`` measures.
    """
    parser.add_argument("--quick", action="store_true", help=quick)
    add_only(parser)
    parser.add_argument("--seconds", type=float, default=seconds, help="time for each case (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="also under torch.compile, beside the eager figures")


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add ``--only``."""
    parser.add_argument("--only", metavar="PATTERN", help="cases whose description matches this regular expression")


def choose(cases: Sequence[Case], pattern: str | None) -> list[Case]:
    """The cases whose text matches the pattern of ``--only``; all if there is none.

    >>> choose(["CCP k=64", "CCP k=256", "NCP k=64"], "CCP.*k=(64|128)")
    ['CCP k=64']
    """
    try:
        chosen = [case for case in cases if pattern is None or re.search(pattern, str(case))]
    except re.error as error:
        raise UsageError(f"--only: {pattern!r} is not a regular expression: {error}") from error
    if not chosen:
        known = "\n  ".join(map(str, cases))
        raise UsageError(f"--only: no case matches {pattern!r}; the cases are\n  {known}")
    return chosen


# The run


def measure_subject(subject: ModuleType, args: argparse.Namespace) -> None:
    """Measure a subject, print its table row by row, and write the rows to ``args.out`` as JSON."""
    facts = machine()  # before anything runs: the load is that of others
    keep_memory()  # as training does
    if args.threads is not None:
        torch.set_num_threads(args.threads)
        facts["threads"] = args.threads
    rows: list[Row] = []
    with _busy_process(args.busy):
        for row in subject.rows(args):
            _print(row, rows[-1] if rows else None)
            rows.append(row)
    summary = subject.summary(rows) if hasattr(subject, "summary") else goals_reached(rows)
    print(f"\n{summary}")
    content = {
        "subject": args.subject,
        "machine": facts,
        "busy": args.busy,
        "summary": summary,
        "rows": [row.to_json() for row in rows],
    }
    write_bytes(args.out, json.dumps(content, indent=1).encode())
    print(f"written to {args.out}")


@contextmanager
def _busy_process(wanted: bool) -> Iterator[None]:
    """Keep one core busy for as long as the context lasts."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


_CASE_WIDTH = 56


def _print(row: Row, before: Row | None) -> None:
    """Print a row, below a head if its columns are not those of the row before."""
    columns = list(row.figures)
    if before is None or columns != list(before.figures):
        print(f"\n{'':{_CASE_WIDTH}}" + "".join(f"{name:>{_width(name)}}" for name in columns))
    values = "".join(f"{f'{value:.4g}':>{_width(name)}}" for name, value in row.figures.items())
    goals = "; ".join(f"{goal}{' missed' if goal in row.missed else ''}" for goal in row.goals)
    print(f"{row.case:{_CASE_WIDTH}}{values}{f'   goal: {goals}' if goals else ''}", flush=True)


def _width(name: str) -> int:
    return max(len(name), 8) + 2
