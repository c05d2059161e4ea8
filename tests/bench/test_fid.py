"""The benchmark of the Inception network, on its first layers and images that take no time."""

from __future__ import annotations

import json

import pytest

from pinets.bench.fid import BATCHED, BFLOAT16, CHANNELS_LAST, FULL, PLAIN, QUICK, bench_fid
from pinets.cli import main


def test_every_way_is_compared_with_the_plain_loop():
    bench = bench_fid(QUICK, images=3, batch=2, seconds=0.0, rounds=1, num_features=64)
    assert [row.way for row in bench.rows] == list(QUICK)
    plain = bench.rows[0]
    assert (plain.way, plain.speedup, plain.deviation) == (PLAIN, 1, 0)
    for row in bench.rows:
        assert row.images_per_second > 0
        assert row.speedup == pytest.approx(row.images_per_second / plain.images_per_second)
        assert row.deviation < 1e-5, str(row)
    content = json.loads(json.dumps(bench.to_json()))
    assert (content["benchmark"], content["images"], content["batch"]) == ("fid", 3, 2)
    assert content["rows"][0]["way"] == PLAIN


def test_lower_precision_shows_in_the_features():
    bench = bench_fid([BATCHED, BFLOAT16], images=2, batch=2, seconds=0.0, rounds=1, num_features=64)
    deviations = {row.way: row.deviation for row in bench.rows}
    assert 1e-4 < deviations[BFLOAT16] < 0.1
    assert "features differ by" in str(bench.rows[2])


def test_the_full_run_adds_compilation():
    assert set(QUICK) < set(FULL)
    assert CHANNELS_LAST in QUICK


def test_the_command(tmp_path, capsys, monkeypatch):
    import pinets.bench.fid as fid

    small = fid.bench_fid
    monkeypatch.setattr(fid, "bench_fid", lambda ways, **options: small(ways, **options, num_features=64, rounds=1))
    out = tmp_path / "bench.json"
    assert main(["bench", "fid", "--quick", "--images", "2", "--seconds", "1", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert PLAIN in told
    assert f"{len(QUICK)} rows, none has a goal" in told
    assert json.loads(out.read_text())["images"] == 2
