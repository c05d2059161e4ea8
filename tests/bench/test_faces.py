"""The benchmark of faces, at sizes that take no time."""

from __future__ import annotations

import json

import pytest
import torch

from pinets.bench import faces
from pinets.bench.faces import FULL, LatencyCase, Row, SearchCase, bench_faces

TINY = SearchCase(probes=20, gallery=300, width=16, k=3, far=1e-2)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(faces, "_SQUARE", 64)
    monkeypatch.setattr(faces, "create_model", lambda name: torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3)))


def test_every_goal_of_a_search_is_measured():
    told = []
    bench = bench_faces([TINY, LatencyCase(1)], seconds=0.01, on_row=told.append)
    assert bench.rows == told
    goals = {row.what: (row.goal, row.at_least) for row in bench.rows}
    assert goals["rate of matrix products"] == (0.80, True)
    assert goals["memory beyond the gallery, GB"] == (1.0, False)
    assert goals["time relative to the baseline"] == (1.045, False)
    assert all(row.ratio > 0 for row in bench.rows)
    json.dumps(bench.to_json())


def test_the_sizes_are_those_asked_for():
    search, *latency = FULL
    assert (search.probes, search.gallery, search.width) == (3530, 1_000_000, 512)
    assert search.tail == 3531  # one more than a rate of one in a million allows
    assert [case.batch for case in latency] == [1, 16]


def test_goals_are_at_least_or_at_most():
    assert Row(TINY, "x", 0.79, 0.80, True, {}).reached is False
    assert Row(TINY, "x", 0.79, 0.80, False, {}).reached is True
    assert "missed" in str(Row(TINY, "x", 0.79, 0.80, True, {}))
