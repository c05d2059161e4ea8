"""What the benchmarks' command lines have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pinets.cli.parser import Parser, UsageError

if TYPE_CHECKING:
    from pinets.bench.rows import Results

__all__ = ["add_out", "choose", "finish", "show", "use_threads"]

Case = TypeVar("Case")


def add_out(parser: Parser, benchmark: str) -> None:
    """Add ``--out``, to be written with :func:`finish`."""
    parser.add_argument(
        "--out", metavar="FILE", default=f"runs/bench-{benchmark}.json", help="JSON (default: %(default)s)"
    )


def use_threads(count: int | None) -> None:
    """Let torch use as many threads; its own choice if None."""
    import torch

    if count is not None:
        torch.set_num_threads(count)


def choose(cases: Sequence[Case], only: str | None, describe: Callable[[Case], str] = str) -> list[Case]:
    """The cases whose description has the text of ``--only``; all if there is none."""
    chosen = [case for case in cases if only is None or only in describe(case)]
    if not chosen:
        known = "\n  ".join(describe(case) for case in cases)
        raise UsageError(f"--only: no case has {only!r} in its description; there are\n  {known}")
    return chosen


def show(row: object) -> None:
    """Print a row as it comes."""
    print(row, flush=True)


def finish(results: Results[Any], out: str) -> int:
    """Print the summary and write what was measured as JSON."""
    from pinets._files import write_bytes

    print(f"\n{results.summary()}")
    write_bytes(out, json.dumps(results.to_json(), indent=1).encode())
    print(f"written to {out}")
    return 0
