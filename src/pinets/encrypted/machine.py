"""The machine: free memory, and the speed of SEAL."""

from __future__ import annotations

import os
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from pinets.encrypted.plan import Parameters

__all__ = ["available_memory", "measure_costs"]

_ROUNDS = 3
_UNLIMITED = 2**63 - 1


def available_memory(root: Path = Path("/")) -> int:
    """Free memory in bytes, on the machine and in the container; all memory if the system does not tell."""
    return max(0, min(_of_the_machine(root), *_of_the_containers(root), _UNLIMITED))


def _of_the_machine(root: Path) -> int:
    with suppress(OSError):  # not Linux
        for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _UNLIMITED


@dataclass(frozen=True)
class _Version:
    """The files of one version of Linux's control groups."""

    controller: str
    mount: str
    limit: str
    usage: str
    cache: str  # the line of memory.stat that gives reclaimable memory


_VERSIONS = (
    _Version("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Version("memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _of_the_containers(root: Path) -> Iterator[int]:
    """The memory left in each control group of this process, from the innermost outwards."""
    lines: list[str] = []
    with suppress(OSError):  # not Linux
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, name = line.split(":", 2)
        group = PurePosixPath(name.lstrip("/"))
        for version in _VERSIONS:
            if version.controller in controllers.split(","):
                for folder in (group, *group.parents):  # inside a container the name is often the host's
                    with suppress(OSError, ValueError):  # no such group here, or "max" for no limit
                        yield _left(root / version.mount / folder, version)


def _left(folder: Path, version: _Version) -> int:
    limit, usage = (int((folder / name).read_text(encoding="ascii")) for name in (version.limit, version.usage))
    cache = 0
    with suppress(OSError):
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{version.cache} "):
                cache = int(line.split()[1])
    return limit - usage + cache


def measure_costs(parameters: Parameters) -> Callable[[str, int], float] | None:
    """A function that gives the seconds of an operation at a level, measured at the highest; None without SEAL."""
    from pinets.encrypted.seal import SealDecryptor, SealEvaluator, SealScheme, make_seal_keys

    try:
        scheme = SealScheme(parameters)
    except ModuleNotFoundError:
        return None
    secret, relinearisation, rotation = make_seal_keys(scheme, [1])
    evaluator = SealEvaluator(scheme, relinearisation, rotation, [1])
    numbers = np.full(parameters.slots, 0.5)
    entry = evaluator.load(SealDecryptor(scheme, secret).encrypt(numbers, parameters.scale))
    top = parameters.levels
    plaintext = evaluator.encode(numbers, top, parameters.scale)
    product = evaluator.multiply_plain(entry, plaintext)
    seconds = {
        "rotate": _seconds(lambda: evaluator.rotate(entry, 1)),
        "multiply": _seconds(lambda: evaluator.multiply(entry, entry)),
        "multiply_plain": _seconds(lambda: evaluator.add(evaluator.multiply_plain(entry, plaintext), product)),
        "encode": _seconds(lambda: evaluator.encode(numbers, top, parameters.scale)),
        "rescale": _seconds(lambda: evaluator.rescale(evaluator.multiply_plain(entry, plaintext))),
    }

    def cost(operation: str, level: int) -> float:
        share = (level + 1) / (top + 1)
        if operation in ("rotate", "multiply"):  # key switching transforms each pair of primes
            share *= (level + 2) / (top + 2)
        return seconds[operation] * share

    return cost


def _seconds(call: Callable[[], object]) -> float:
    """The shortest CPU time of a few calls, which does not depend on what else the machine does."""
    return min(timeit.repeat(call, timer=time.process_time, repeat=_ROUNDS, number=1))
