"""Timing for comparisons: several callables in turn, in one process, so that a busy machine slows all of them alike."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch

__all__ = ["interleave", "machine", "medians"]


def interleave(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    warmup: int = 2,
    least: int = 5,
    most: int = 100,
) -> dict[str, list[float]]:
    """Time the callables in rounds, each once per round, and return the seconds each took in every round.

    The order within a round rotates, and every other round is in reverse, so that none always finds the caches as the
    same other one left them: rotated alone, each would nearly always follow the same one.

    Args:
        calls: What to time, by name.
        seconds: Start no further round after this time.
        warmup: Rounds that run before and are not counted.
        least: Rounds that run in any case, however long they take.
        most: Rounds after which to stop, however short they are.

    Example:
        >>> times = interleave({"a": lambda: sum(range(9)), "b": lambda: None}, seconds=0.1, least=3, most=3)
        >>> {name: len(rounds) for name, rounds in times.items()}
        {'a': 3, 'b': 3}
    """
    if not calls:
        raise ValueError("there is nothing to time: calls is empty")
    if least < 1 or most < least:
        raise ValueError(f"rounds must satisfy 1 <= least <= most, got least={least} and most={most}")
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(warmup):
        for name in names:
            calls[name]()
    collecting = gc.isenabled()
    gc.disable()  # or the callable that happens to trigger a collection pays for all
    try:
        end = time.perf_counter() + seconds
        for count in range(most):
            if count >= least and time.perf_counter() >= end:
                break
            first = count // 2 % len(names)
            rotated = names[first:] + names[:first]
            for name in reversed(rotated) if count % 2 else rotated:
                start = time.perf_counter()
                calls[name]()
                times[name].append(time.perf_counter() - start)
    finally:
        if collecting:
            gc.enable()
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of every callable's rounds, in seconds.

    >>> medians({"a": [1.0, 9.0, 2.0]})
    {'a': 2.0}
    """
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def machine() -> dict[str, object]:
    """What a reader needs to know about the machine to judge the figures."""
    facts: dict[str, object] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "getloadavg"):
        facts["load"] = round(os.getloadavg()[0], 2)  # above zero at the start: others were using the machine
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor()
