"""Free memory, from the files of a system that is made up."""

from __future__ import annotations

import pytest

from pinets.encrypted.machine import available_memory

MACHINE = {"proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000 kB\n"}
FREE = 8000 * 1024
V2 = {"proc/self/cgroup": "0::/a/b\n"}
V1 = {"proc/self/cgroup": "5:cpu,memory:/docker/1\n1:cpu:/\n0::/\n"}


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, FREE),
        ({**V2, "sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/b/memory.current": "10"}, FREE),
        ({**V2, "sys/fs/cgroup/a/b/memory.max": "5000\n", "sys/fs/cgroup/a/b/memory.current": "2000\n"}, 3000),
        ({**V2, "sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "2000\n"}, 3000),
        ({**V2, "sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "2000\n"}, 3000),
        ({**V2, "sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "7000\n"}, 0),
        (
            {
                **V2,
                "sys/fs/cgroup/memory.max": "5000\n",
                "sys/fs/cgroup/memory.current": "4000\n",
                "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 1500\nactive_file 9\n",
            },
            2500,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "77\n",
            },
            FREE,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "6000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "2000\n",
                "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
            },
            4500,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "6000\n",
                "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes": "2000\n",
            },
            4000,
        ),
    ],
    ids=[
        *("no container", "no limit", "a limit", "a limit of the group around", "a limit of the container's root"),
        *("more than the limit", "files that are kept in memory", "version 1 without a limit"),
        *("version 1 as containers see it", "version 1 as the host sees it"),
    ],
)
def test_the_smallest_of_all_limits_counts(files, expected, tmp_path):
    for name, content in {**MACHINE, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert available_memory(tmp_path) == expected


def test_a_system_that_does_not_say_and_this_one(tmp_path):
    assert available_memory(tmp_path) > 2**20
    assert available_memory() > 2**20
