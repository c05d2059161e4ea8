"""The benchmark of the Inception network, on its first layers and images that take no time."""

from __future__ import annotations

import pytest

from benchmarks.fid import BATCHED, BFLOAT16, CHANNELS_LAST, FULL, PLAIN, QUICK, measure

SMALL = {"batch": 2, "seconds": 0.0, "least": 1, "num_features": 64}


def test_every_way_is_compared_with_the_plain_loop():
    rows = measure(QUICK, images=3, **SMALL)
    assert [row.case for row in rows] == list(QUICK)
    plain = rows[0]
    assert (plain.case, plain.figures["speed-up"], plain.figures["features differ by"]) == (PLAIN, 1, 0)
    for row in rows:
        assert row.figures["images/s"] > 0
        assert row.figures["speed-up"] == pytest.approx(row.figures["images/s"] / plain.figures["images/s"])
        assert row.figures["features differ by"] < 1e-5, row.case


def test_lower_precision_shows_in_the_features():
    rows = measure([BATCHED, BFLOAT16], images=2, **SMALL)
    deviations = {row.case: row.figures["features differ by"] for row in rows}
    assert 1e-4 < deviations[BFLOAT16] < 0.1


def test_the_quick_run_has_the_way_that_is_used():
    assert set(QUICK) < set(FULL)
    assert CHANNELS_LAST in QUICK
