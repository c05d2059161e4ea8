"""Long work shows how far it is."""

from __future__ import annotations

import re
import sys

from pinets._progress import Progress, track


def test_plain_lines_give_rate_time_left_and_metrics(capsys):
    with Progress("cifar", steps=1000, done=100, every_seconds=0) as plain:
        plain.advance({"loss": 2.0})
        plain.advance({"loss": 1.5})
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"cifar: 101/1000 step, \S+step/s, \S+ left, loss=2", first)
    assert re.fullmatch(r"cifar: 102/1000 step, \S+step/s, \S+ left, loss=1\.5", second)


def test_plain_lines_come_now_and_then(capsys):
    with Progress("cifar", steps=3, every_seconds=60) as plain:
        plain.advance()
        plain.say("epoch 1")
        plain.advance()
    assert capsys.readouterr().err == "cifar: epoch 1\n"


def test_a_terminal_shows_a_bar_and_the_lines_above_it(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress("cifar", steps=2) as bar:
        bar.advance({"loss": 1.0})
        bar.say("epoch 1")
        bar.advance({"loss": 0.5})
    shown = capsys.readouterr().err
    assert "\repoch 1\n" in shown or "\nepoch 1\n" in shown
    assert "2/2" in shown
    assert "loss=0.5" in shown


def test_a_bar_vanishes_unless_it_is_to_stay(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress("x", 1, unit="run", stays=False) as bar:
        bar.advance()
    assert capsys.readouterr().err.endswith("\r")


def test_other_processes_are_silent(capsys):
    with Progress("x", 3, main=False, every_seconds=0) as quiet:
        quiet.advance({"loss": 1.0})
        quiet.say("epoch 1")
    assert capsys.readouterr() == ("", "")


def test_tracked_items_come_in_order():
    assert list(track("abc", "samples", unit="batch")) == ["a", "b", "c"]
