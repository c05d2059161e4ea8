from __future__ import annotations

import resource

import pytest

from pinets.engine import logs


def test_rewinding_forgets_what_came_later(tmp_path):
    log = logs.MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "board", tmp_path)
    log.write("train", 1, 1, {"loss": 0.5})
    position = log.flush()
    log.write("train", 2, 1, {"loss": 0.4})
    log.rewind(position, step=1)
    log.write("train", 2, 1, {"loss": 0.3}, seconds=7)
    log.close()
    assert (tmp_path / "metrics.jsonl").read_text().splitlines() == [
        '{"split": "train", "step": 1, "epoch": 1, "loss": 0.5}',
        '{"split": "train", "step": 2, "epoch": 1, "loss": 0.3, "seconds": 7}',
    ]


def test_a_full_disk_names_the_log(tmp_path):
    log = logs.MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "board", tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write.*metrics\.jsonl"):
            log.write("train", 1, 1, {"loss": 0.123456789})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.close()
