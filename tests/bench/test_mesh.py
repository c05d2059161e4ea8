from __future__ import annotations

import json

import pytest
import torch

from pinets.bench.mesh import QUICK, Case, PublishedSpiralConv, Row, bench_mesh, torus, torus_hierarchy
from pinets.cli import main
from pinets.mesh import fit_length, ordered_neighbours, spiral_lists
from pinets.operators import SpiralConv

pytest.importorskip("scipy")


def test_both_formulations_compute_the_same():
    torch.manual_seed(0)
    conv = SpiralConv(3, 5, fit_length(spiral_lists(torus(50)), 9))
    x = torch.randn(2, 50, 3)
    padded = torch.cat([x, torch.zeros(2, 1, 3)], dim=1)
    torch.testing.assert_close(PublishedSpiralConv(conv)(padded), conv(x))


def test_the_torus_is_closed():
    mesh = torus(400)
    assert {len(around) for around in ordered_neighbours(mesh)} == {6}
    assert len(torus(5023).vertices) == 5023
    assert torus_hierarchy(400).sizes == (400, 100, 25, 7, 2)


def test_the_command_measures_and_writes(tmp_path, capsys):
    out = tmp_path / "bench.json"
    assert main(["bench", "mesh", "--quick", "--seconds", "1", "--only", "convolution", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["case"].split(",")[0] for row in rows] == ["time of 16-32", "time of 16-16", "time of 3-16"]
    assert "times as fast" in capsys.readouterr().out
    assert main(["bench", "mesh", "--quick", "--only", "nothing"]) == 2


def test_memory_is_counted_and_networks_are_timed():
    cases = [case for case in QUICK if case.name in ("memory", "simple")]
    memory, simple = bench_mesh(cases, seconds=0.01, least=2).rows
    assert memory.ratio < 1  # what is gathered is not kept
    assert memory.reached
    assert simple.ratio > 1


def test_rows_say_whether_the_goal_is_reached():
    row = Row(Case("convolution", 400, 4, goal=0.5), value=1.0, baseline=1.6)
    assert (
        str(row)
        == "time of 16-32, 400 vertices, batch 4: 0.625 of the baseline's, 1.60 times as fast; goal 0.500, missed"
    )
