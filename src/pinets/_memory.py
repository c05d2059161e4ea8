"""Make glibc keep freed memory, for work that allocates blocks of the same sizes again and again."""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = ["keep_memory"]

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_memory() -> bool:
    """Let this process keep the memory it frees instead of returning it to the system.

    Every training step on CPU frees and allocates the same large blocks. By default glibc maps each of them anew, and
    the system clears every page: a third of the time of a small convolutional network.

    Returns:
        True if the setting changed. It does not change without glibc, or if the environment has malloc settings
        (``MALLOC_TRIM_THRESHOLD_`` and the like).
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _SETTINGS):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))
