from __future__ import annotations

import math

import pytest
import torch

from pinets.tasks.meshes.metrics import VertexError, vertex_distances


def test_against_the_definition_in_any_batches():
    generator = torch.Generator().manual_seed(0)
    true, made = torch.randn(2, 23, 50, 3, generator=generator, dtype=torch.float64)
    distances = 1000 * (true - made).square().sum(-1).sqrt()
    error = VertexError(millimetres=1000)
    for first, second in zip(made.split(5), true.split(5), strict=True):
        error.update(first, second)
    found = error.compute()
    assert found["error_mm"] == pytest.approx(distances.mean().item(), rel=1e-12)
    assert found["deviation_mm"] == pytest.approx(distances.std(correction=0).item(), rel=1e-9)
    assert found["median_mm"] == pytest.approx(distances.median().item(), rel=1e-3)
    assert found["non_finite"] == 0


def test_what_is_not_finite_counts_and_is_never_left_out():
    made = torch.zeros(2, 3, 3)
    made[0, 0, 1] = math.nan
    made[1, 2, 0] = math.inf
    error = VertexError(1.0)
    error.update(made, torch.ones(2, 3, 3))
    found = error.compute()
    assert found["non_finite"] == 2
    assert found["error_mm"] == math.inf
    assert found["deviation_mm"] == math.inf
    assert found["median_mm"] == pytest.approx(math.sqrt(3), rel=1e-3)  # four of six are finite
    assert vertex_distances(made, torch.zeros(2, 3, 3)).isinf().sum() == 2


def test_processes_are_summed():
    one, two = VertexError(1.0), VertexError(1.0)
    one.update(torch.ones(1, 4, 3), torch.zeros(1, 4, 3))
    two.update(torch.zeros(3, 4, 3), torch.zeros(3, 4, 3))
    pairs = iter([(one.sums, two.sums), (one.histogram, two.histogram)])
    found = one.compute(lambda total: sum(next(pairs)))
    assert found["error_mm"] == pytest.approx(math.sqrt(3) / 4)


def test_a_unit_must_be_positive():
    with pytest.raises(ValueError, match="millimetres must be positive, got 0"):
        VertexError(0)
