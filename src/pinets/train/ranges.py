"""Numbers that must lie in a range: the values of recipes are refused when they are made, not when they do harm."""

from __future__ import annotations

import math

__all__ = ["require_range"]


def require_range(
    name: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> None:
    """Refuse a number that is out of its range, infinite or not a number.

    >>> require_range("momentum", 0.9, at_least=0, below=1)
    >>> require_range("momentum", -1, at_least=0, below=1)
    Traceback (most recent call last):
    ValueError: momentum must be at least 0 and below 1, got -1
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    kept = (
        math.isfinite(value)
        and (at_least is None or value >= at_least)
        and (above is None or value > above)
        and (at_most is None or value <= at_most)
        and (below is None or value < below)
    )
    if not kept:
        rule = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        finite = "" if math.isfinite(value) else "finite and "
        raise ValueError(f"{name} must be {finite}{rule}, got {value}")
