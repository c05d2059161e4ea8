from __future__ import annotations

import gc
import time
from collections import Counter
from itertools import pairwise

import pytest
import torch

from pinets.bench.timing import interleave, machine, medians


def test_rounds_are_interleaved_and_rotate_both_ways():
    calls = []
    interleave({name: (lambda name=name: calls.append(name)) for name in "abc"}, seconds=9, warmup=1, least=4, most=4)
    assert "".join(calls) == "abc" + "abc" + "cba" + "bca" + "acb"


def test_of_two_neighbours_neither_always_follows_the_other():
    calls = []
    interleave({name: (lambda name=name: calls.append(name)) for name in "abcd"}, seconds=9, warmup=0, least=8, most=8)
    pairs = Counter(pairwise(calls))
    assert abs(pairs["a", "b"] - pairs["b", "a"]) <= 1


def test_time_is_measured():
    times = interleave({"long": lambda: time.sleep(0.02), "short": lambda: None}, seconds=0, warmup=0, least=5, most=5)
    median = medians(times)
    assert 0.02 <= median["long"] < 0.5
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
