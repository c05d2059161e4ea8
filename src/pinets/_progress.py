"""How far long work is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TextIO, TypeVar

from pinets._extras import require

__all__ = ["PlainProgress", "Progress", "ProgressBar", "progress", "track"]

T = TypeVar("T")


class Progress:
    """How far work is, told to nobody: for the processes that are not the main one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def advance(self, metrics: Mapping[str, float]) -> None:
        """One step is done."""

    def say(self, text: str) -> None:
        """A line that stays."""


class ProgressBar(Progress):
    """A bar with the rate and the time left, for terminals."""

    def __init__(self, title: str, steps: int, done: int, *, unit: str = "step", stays: bool = True) -> None:
        tqdm = require("tqdm", extra="train").tqdm
        self._bar = tqdm(
            total=steps, initial=done, desc=title, unit=unit, leave=stays, dynamic_ncols=True, smoothing=0.05
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def advance(self, metrics: Mapping[str, float]) -> None:
        self._bar.set_postfix({name: f"{value:.4g}" for name, value in metrics.items()}, refresh=False)
        self._bar.update()

    def say(self, text: str) -> None:
        self._bar.write(text, file=sys.stderr)


class PlainProgress(Progress):
    """A line now and then, for logs and pipes."""

    def __init__(
        self,
        title: str,
        steps: int,
        done: int,
        *,
        unit: str = "step",
        stream: TextIO | None = None,
        every_seconds: float = 60.0,
    ) -> None:
        self._title, self._steps, self._first, self._done = title, steps, done, done
        self._unit, self._stream, self._every = unit, stream, every_seconds
        self._start = self._last = time.monotonic()

    def advance(self, metrics: Mapping[str, float]) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            rate = (self._done - self._first) / (now - self._start)
            left = (self._steps - self._done) / rate
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
            text = f"{self._unit} {self._done}/{self._steps}, {rate:.3g} {self._unit}/s, {left / 60:.1f} min left"
            self.say(f"{text}: {numbers}" if numbers else text)

    def say(self, text: str) -> None:
        print(f"{self._title}: {text}", file=self._stream or sys.stderr, flush=True)


def progress(
    title: str,
    steps: int,
    done: int,
    *,
    main: bool = True,
    unit: str = "step",
    stays: bool = True,
    every_seconds: float = 60.0,
) -> Progress:
    """A bar on a terminal, plain lines elsewhere, nothing on processes that are not the main one.

    Args:
        title: What the work is.
        steps: How many there are.
        done: How many of them are done already.
        main: Whether this is the main process.
        unit: What a step is.
        stays: Whether a bar is left on the terminal at the end.
        every_seconds: How long it is between two plain lines, at least.
    """
    if not main:
        return Progress()
    if sys.stderr.isatty():
        return ProgressBar(title, steps, done, unit=unit, stays=stays)
    return PlainProgress(title, steps, done, unit=unit, every_seconds=every_seconds)


def track(items: Sequence[T], title: str, *, unit: str) -> Iterator[T]:
    """Go through items, telling how far it is; a bar is gone at the end."""
    with progress(title, len(items), 0, unit=unit, stays=False) as bar:
        for item in items:
            yield item
            bar.advance({})
