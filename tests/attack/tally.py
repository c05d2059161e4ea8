"""What a fuzzer tried and what failed, and the random numbers of each case."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

__all__ = ["Tally", "cases"]


@dataclass
class Tally:
    """The result of a fuzzer."""

    cases: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, passed: object, message: str) -> None:
        """Note a failure unless the check passed."""
        if not passed:
            self.failures.append(message)


def cases(seconds: float, seed: int) -> Iterator[tuple[str, Random]]:
    """Name each case and give it random numbers of its own, until the time is up. There is at least one case.

    A case depends on the seed and its number alone: the same seed gives the same cases again.
    """
    end = time.monotonic() + seconds
    for number in itertools.count():
        name = f"case {seed}.{number}"
        yield name, Random(name)
        if time.monotonic() > end:
            return
