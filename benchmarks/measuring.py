"""Measuring: the time of several callables in turn, the memory of one at its highest, and the machine.

Callables run in turn in one process, so that a busy machine slows all of them alike. With one thread the CPU time of
the process is measured, which other processes hardly disturb; with several, the time on the clock.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["interleave", "machine", "medians", "peak_bytes"]


def interleave(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    warmup: int = 2,
    least: int = 5,
    most: int = 100,
) -> dict[str, list[float]]:
    """Time the callables in rounds, each once per round, and return the seconds each took in every round.

    With one thread (``torch.get_num_threads()``) these are seconds of CPU time.

    The order within a round rotates, and every other round is in reverse. Each callable then finds the caches as
    different others left them; with rotation alone, each would nearly always follow the same one.

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
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
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
                start = clock()
                calls[name]()
                times[name].append(clock() - start)
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


def peak_bytes(call: Callable[[], object], alive: Iterable[Tensor] = ()) -> int:
    """The largest number of bytes in tensors at any moment of a call, with those that are alive before it.

    The count is by tensor and so the same every time. What a single operation needs inside is not counted.

    >>> x = torch.zeros(1000)
    >>> peak_bytes(lambda: (x + 1).sum(), alive=[x])  # x, x + 1 and the sum, 4 bytes a number
    8004
    """
    counter = _Counter(alive)
    with counter:
        call()
    return counter.peak


class _Counter(TorchDispatchMode):
    def __init__(self, alive: Iterable[Tensor]) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.peak = 0
        self.count(alive)

    def count(self, tensors: Iterable[Any]) -> None:
        for value in tensors:
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                self.sizes[StorageWeakRef(storage)] = storage.nbytes()
        self.sizes = {storage: size for storage, size in self.sizes.items() if not storage.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.count(tree_leaves(out))
        return out


def machine() -> dict[str, object]:
    """The facts about the machine that figures depend on."""
    facts: dict[str, object] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "getloadavg"):
        facts["load"] = round(os.getloadavg()[0], 2)  # above zero: other processes are using the machine
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
