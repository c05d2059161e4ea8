"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from pinets._extras import require

__all__ = ["Progress", "track"]

T = TypeVar("T")

_LINE = "{n_fmt}/{total_fmt} {unit}, {rate_noinv_fmt}, {remaining} left{postfix}"


class Progress:
    """A context manager that shows how many steps are done.

    Args:
        title: What the work is.
        steps: How many there are.
        done: How many of them are done already.
        main: Whether this is the main process; the others are silent.
        unit: What a step is.
        stays: Whether the bar stays on the terminal at the end.
        every_seconds: Time between two plain lines, at least.
    """

    def __init__(
        self,
        title: str,
        steps: int,
        done: int = 0,
        *,
        main: bool = True,
        unit: str = "step",
        stays: bool = True,
        every_seconds: float = 60.0,
    ) -> None:
        self._title, self._lines = title, not sys.stderr.isatty()
        look: dict[str, Any] = {"desc": title, "leave": stays, "dynamic_ncols": True}
        if self._lines:  # tqdm counts and measures, and shows nothing itself
            look = {"file": io.StringIO(), "mininterval": every_seconds, "miniters": 1, "bar_format": _LINE}
        tqdm = require("tqdm", extra="train").tqdm
        self._bar = tqdm(total=steps, initial=done, unit=unit, smoothing=0.05, disable=not main, **look)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, metrics: Mapping[str, float] = {}) -> None:
        """Count a step; the metrics are shown beside it."""
        self._bar.set_postfix({name: f"{value:.4g}" for name, value in metrics.items()}, refresh=False)
        if self._bar.update() and self._lines:
            self.say(str(self._bar))

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._bar.disable:
            return
        if self._lines:
            print(f"{self._title}: {text}", file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)


def track(items: Sequence[T], title: str, *, unit: str) -> Iterator[T]:
    """Go through items and show how many are done."""
    with Progress(title, len(items), unit=unit, stays=False) as bar:
        for item in items:
            yield item
            bar.advance()
