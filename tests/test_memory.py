"""Freed memory is kept where we say so."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, torch
from pinets._memory import keep_memory
print(keep_memory())
for _ in range(20):  # glibc needs a few rounds until the blocks fit
    torch.zeros(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.zeros(2**24)  # 64 MB, 16,384 pages
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count(**settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment | settings, capture_output=True, text=True, check=True
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the settings")
def test_freed_memory_is_used_again_without_page_faults():
    kept, faults = count()
    assert kept
    assert faults < 1000


def test_settings_of_the_environment_come_first():
    kept, _ = count(MALLOC_TRIM_THRESHOLD_="131072")
    assert not kept
