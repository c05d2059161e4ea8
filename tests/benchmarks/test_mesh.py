from __future__ import annotations

import pytest
import torch

from benchmarks.mesh import QUICK, Case, PublishedSpiralConv, measure, torus, torus_hierarchy
from pinets.operators import SpiralConv
from pinets.tasks.meshes.geometry import fit_length, ordered_neighbours, spiral_lists

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


@pytest.mark.parametrize("compiled", [False, True])
def test_a_convolution_is_compared_with_the_published_form(compiled):
    row = measure(Case("convolution", 50, 2, goal=1.0), seconds=0.01, compiled=compiled, least=2)
    ways = ("eager", "compiled")[: 1 + compiled]
    assert list(row.figures) == [f"{way} {what}" for way in ways for what in ("ms", "ratio")]
    assert [goal.figure for goal in row.goals] == [f"{way} ratio" for way in ways]
    assert row.case == "convolution 16-32, 50 vertices, batch 2"


def test_memory_is_counted_and_networks_are_timed():
    memory, simple = (measure(case, seconds=0.01, least=2) for case in QUICK if case.name in ("memory", "simple"))
    assert memory.figures["ratio"] == pytest.approx(memory.figures["MB"] / memory.figures["baseline MB"])
    assert simple.figures["eager ratio"] > 1
    assert simple.goals == ()
