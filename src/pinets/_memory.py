"""Memory that the C library keeps, for work that asks for blocks of the same sizes again and again."""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = ["keep_memory"]

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_memory() -> bool:
    """Let this process keep the memory it frees, instead of handing it back and getting it again page by page.

    Every step of training on CPU frees and asks for the same large blocks. By default glibc maps each of them anew, and
    the system clears every page of it: a third of the time of a small convolutional network.

    Returns:
        Whether it could: elsewhere than with glibc, or where the environment has settings of its own
        (``MALLOC_TRIM_THRESHOLD_`` and the like), nothing changes.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _SETTINGS):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))
