from __future__ import annotations

import gc
import time
from collections import Counter
from itertools import pairwise

import pytest
import torch

from benchmarks.measuring import interleave, machine, medians, peak_bytes


def test_rounds_are_interleaved_and_rotate_both_ways():
    calls = []
    interleave({name: (lambda name=name: calls.append(name)) for name in "abc"}, seconds=9, warmup=1, least=4, most=4)
    assert "".join(calls) == "abc" + "abc" + "cba" + "bca" + "acb"


def test_of_two_neighbours_neither_always_follows_the_other():
    calls = []
    interleave({name: (lambda name=name: calls.append(name)) for name in "abcd"}, seconds=9, warmup=0, least=8, most=8)
    pairs = Counter(pairwise(calls))
    assert abs(pairs["a", "b"] - pairs["b", "a"]) <= 1


@pytest.mark.parametrize("threads", [1, 2])
def test_time_is_cpu_time_with_one_thread_and_on_the_clock_with_two(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    times = interleave({"long": lambda: time.sleep(0.02), "short": lambda: None}, seconds=0, warmup=0, least=5, most=5)
    median = medians(times)
    assert median["long"] < 0.01 if threads == 1 else 0.02 <= median["long"] < 0.5
    assert median["short"] < 0.01


def test_the_time_is_bounded_but_the_least_rounds_run():
    rounds = interleave({"a": lambda: time.sleep(0.01)}, seconds=0.1, warmup=0, least=2, most=1000)["a"]
    assert 2 <= len(rounds) <= 11
    assert len(interleave({"a": lambda: time.sleep(0.01)}, seconds=0, warmup=0, least=4)["a"]) == 4


def test_garbage_collection_pauses_and_comes_back():
    states = []
    interleave({"a": lambda: states.append(gc.isenabled())}, seconds=1, warmup=0, least=2, most=2)
    assert states == [False, False]
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        interleave({"a": lambda: 1 / 0}, seconds=1, warmup=0)
    assert gc.isenabled()


@pytest.mark.parametrize("arguments", [{"calls": {}}, {"least": 0}, {"least": 5, "most": 4}])
def test_impossible_requests_are_refused(arguments):
    with pytest.raises(ValueError):
        interleave(**{"calls": {"a": lambda: None}, "seconds": 1.0, **arguments})


def test_the_machine_is_described():
    facts = machine()
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert facts["cores"] >= 1


def test_peak_counts_what_is_alive_at_once():
    x = torch.zeros(1000)
    assert peak_bytes(lambda: x + 1 + 1, alive=[x]) == 3 * 4000  # x and two results
    assert peak_bytes(lambda: [x + 1 for _ in range(3)], alive=[x]) == 4 * 4000
    assert peak_bytes(lambda: x.view(10, 100).t(), alive=[x]) == 4000  # views need nothing


def test_peak_sees_the_backward_pass():
    weight = torch.zeros(1000, requires_grad=True)
    # the weight, what exp keeps of either step, and the gradient on its way
    twice = peak_bytes(lambda: weight.exp().exp().sum().backward(), alive=[weight])
    without = peak_bytes(lambda: ((weight * 2) * 2).sum().backward(), alive=[weight])
    assert twice - without == 4000
