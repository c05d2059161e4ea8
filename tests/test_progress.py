"""Long work tells how far it is."""

from __future__ import annotations

import io
import sys

from pinets import _progress as shown


def test_plain_lines_give_rate_and_time_left(monkeypatch):
    clock = iter([0.0, 30.0, 60.0])
    monkeypatch.setattr(shown.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    plain = shown.PlainProgress("cifar", steps=1000, done=100, stream=stream, every_seconds=60)
    plain.advance({"loss": 2.0})
    plain.advance({"loss": 1.5})
    assert stream.getvalue() == "cifar: step 102/1000, 0.0333 step/s, 449.0 min left: loss 1.5\n"


def test_a_bar_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert isinstance(shown.progress("x", 3, 0), shown.PlainProgress)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with shown.progress("x", 3, 0) as bar:
        assert isinstance(bar, shown.ProgressBar)
        bar.advance({"loss": 1.0})
        bar.say("epoch 1")


def test_a_bar_is_gone_if_it_is_not_to_stay(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with shown.progress("x", 1, 0, unit="run", stays=False) as bar:
        bar.advance({})
    assert capsys.readouterr().err.endswith("\r")


def test_other_processes_are_silent(capsys):
    with shown.progress("x", 3, 0, main=False) as quiet:
        quiet.advance({"loss": 1.0})
        quiet.say("epoch 1")
    assert capsys.readouterr() == ("", "")


def test_what_is_tracked_comes_in_order_and_is_told_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    clock = iter([0.0, 40.0, 80.0, 120.0])
    monkeypatch.setattr(shown.time, "monotonic", lambda: next(clock))
    assert list(shown.track("abc", "samples", unit="batch")) == ["a", "b", "c"]
    assert capsys.readouterr().err == "samples: batch 2/3, 0.025 batch/s, 0.7 min left\n"
