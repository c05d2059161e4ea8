"""The benchmark of faces, at sizes that take no time."""

from __future__ import annotations

import pytest
import torch

from benchmarks import faces
from benchmarks.faces import FULL, LatencyCase, SearchCase, measure_latency, measure_search


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(faces, "_SQUARE", 64)
    monkeypatch.setattr(faces, "create_model", lambda name: torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3)))


def test_every_goal_of_a_search_is_measured():
    row = measure_search(SearchCase(probes=20, gallery=300, width=16, k=3, far=1e-2), seconds=0.01)
    goals = [str(goal) for goal in row.goals]
    assert goals[:2] == ["rate of products >= 0.8", "GB beyond gallery <= 1"]
    assert goals[2:] == (["best/faiss <= 1.1"] if "faiss s" in row.figures else [])
    assert all(value > 0 for value in row.figures.values())


@pytest.mark.parametrize("compiled", [False, True])
def test_latency_is_compared_with_the_baseline_and_the_floor(compiled):
    row = measure_latency(LatencyCase(1, size=8), seconds=0.01, compiled=compiled)
    names = [f"{way}{what}" for way in ("eager", "compiled")[: 1 + compiled] for what in (" ms", "/baseline", "/floor")]
    assert list(row.figures) == names


def test_the_sizes_are_those_of_megaface():
    search, *latency = FULL
    assert (search.probes, search.width) == (3530, 512)
    assert SearchCase(gallery=1_000_000).tail == 3531  # one more than a rate of one in a million allows
    assert [case.batch for case in latency] == [1, 16]
