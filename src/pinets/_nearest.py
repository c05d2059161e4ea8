"""The nearest known word, for errors about a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: the nearest known one, if one is near.

    >>> did_you_mean("certfy", ["expand", "certify"])
    "; did you mean 'certify'?"
    >>> did_you_mean("kernel", ["kernel_size", "stride"])
    "; did you mean 'kernel_size'?"
    >>> did_you_mean("xyz", ["expand", "certify"])
    '; known are certify, expand'
    """
    words = sorted(known)
    near = [(found, candidate) for candidate in words if (found := _distance(word, candidate)) is not None]
    if near:
        return f"; did you mean {min(near)[1]!r}?"
    return f"; known are {', '.join(words)}" if 0 < len(words) <= 20 else ""


def _distance(word: str, candidate: str) -> tuple[int, int, int] | None:
    """The distance of a candidate from a word: typing errors, or letters left off its end. None if it is not near.

    >>> _distance("rnak", "rank"), _distance("resnet18", "resnet18_cifar"), _distance("mynet", "monet_s")
    ((1, 0, -1), (1, 6, -8), None)
    """
    word, candidate = (text.lower().lstrip("-") for text in (word, candidate))  # all options start with dashes
    same_start = next((i for i, (a, b) in enumerate(zip(word, candidate, strict=False)) if a != b), len(word))
    longer = abs(len(word) - len(candidate))
    if len(word) >= 3 and candidate.startswith(word):
        return 1, longer, -same_start
    allowed = max(1, len(word) // 3)
    if longer > allowed:
        return None
    errors = _typing_errors(word, candidate)
    return (errors, longer, -same_start) if errors <= allowed else None


def _typing_errors(first: str, second: str) -> int:
    """The number of letters left out, added, replaced or swapped with their neighbour (Damerau and Levenshtein)."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, a in enumerate(first):
        two_before, before, row = before, row, [i + 1]
        for j, b in enumerate(second):
            best = min(before[j] + (a != b), before[j + 1] + 1, row[j] + 1)
            if i and j and a == second[j - 1] and b == first[i - 1]:
                best = min(best, two_before[j - 1] + 1)
            row.append(best)
    return row[-1]
