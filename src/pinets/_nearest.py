"""The nearest known word, for errors about a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word.

    >>> did_you_mean("certfy", ["expand", "certify"])
    "; did you mean 'certify'?"
    >>> did_you_mean("xyz", ["expand", "certify"])
    '; known are certify, expand'
    """
    words = sorted(known)
    if words:
        nearest = max(words, key=lambda candidate: _likeness(word, candidate))
        if _likeness(word, nearest) >= (0.6, 0):
            return f"; did you mean {nearest!r}?"
    return f"; known are {', '.join(words)}" if 0 < len(words) <= 20 else ""


def _likeness(first: str, second: str) -> tuple[float, int]:
    """How alike two words are; of those equally alike, the one that starts the same is nearer."""
    first, second = (word.lower().lstrip("-") for word in (first, second))  # all options start with dashes
    same_start = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))
    return difflib.SequenceMatcher(None, first, second).ratio(), same_start
