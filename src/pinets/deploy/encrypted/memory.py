"""How much memory is free, on the machine and in the container that limits this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["available_memory"]

_UNLIMITED = 2**63 - 1


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can still be used; of all memory where the system does not say.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """
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
    """Where a version of Linux's control groups has its files."""

    controller: str
    mount: str
    limit: str
    usage: str
    cache: str  # the line of memory.stat with what is given up where memory is short


_VERSIONS = (
    _Version("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Version("memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _of_the_containers(root: Path) -> Iterator[int]:
    """What is left in the control groups of this process, each of which is inside the next."""
    lines: list[str] = []
    with suppress(OSError):  # not Linux
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, name = line.split(":", 2)
        group = PurePosixPath(name.lstrip("/"))
        for version in _VERSIONS:
            if version.controller in controllers.split(","):
                for folder in (group, *group.parents):  # in a container the name is often that of the host's
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
