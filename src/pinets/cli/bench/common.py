"""What the benchmarks' command lines have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from pinets.cli.parser import Parser, UsageError

__all__ = ["add_out", "choose", "finish", "show", "use_threads", "write"]

Case = TypeVar("Case")


class Bench(Protocol):
    def summary(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


def add_out(parser: Parser, benchmark: str) -> None:
    """Add ``--out``, to be written with :func:`finish` or :func:`write`."""
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


def finish(bench: Bench, out: str) -> int:
    """Print the summary and write what was measured."""
    print(f"\n{bench.summary()}")
    return write(bench.to_json(), out)


def write(content: dict[str, Any], out: str) -> int:
    """Write what was measured as JSON."""
    from pinets._files import write_bytes

    write_bytes(out, json.dumps(content, indent=1).encode())
    print(f"written to {out}")
    return 0
