from __future__ import annotations

import io
import resource
import sys

import pytest

from pinets.train import logs


def test_plain_lines_give_rate_and_time_left(monkeypatch):
    clock = iter([0.0, 30.0, 60.0])
    monkeypatch.setattr(logs.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    plain = logs.PlainProgress("cifar", steps=1000, done=100, stream=stream, every_seconds=60)
    plain.advance({"loss": 2.0})
    plain.advance({"loss": 1.5})
    assert stream.getvalue() == "cifar: step 102/1000, 0.0333 steps/s, 449.0 min left: loss 1.5\n"


def test_a_bar_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert isinstance(logs.progress("x", 3, 0), logs.PlainProgress)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with logs.progress("x", 3, 0) as bar:
        assert isinstance(bar, logs.ProgressBar)
        bar.advance({"loss": 1.0})
        bar.say("epoch 1")


def test_other_processes_are_silent(capsys):
    with logs.progress("x", 3, 0, main=False) as quiet:
        quiet.advance({"loss": 1.0})
        quiet.say("epoch 1")
    assert capsys.readouterr() == ("", "")


def test_rewinding_forgets_what_came_later(tmp_path):
    log = logs.MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "board")
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
    log = logs.MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "board")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write.*metrics\.jsonl"):
            log.write("train", 1, 1, {"loss": 0.123456789})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.close()
