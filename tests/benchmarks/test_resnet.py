"""The benchmark of the residual networks, at sizes that take no time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from benchmarks.resnet import FULL, QUICK, Case, MemoryCase, measure, measure_memory, start_products
from pinets.models import create_model


@pytest.mark.parametrize("case", [case for case in QUICK if isinstance(case, MemoryCase)], ids=str)
def test_memory_of_a_block_is_compared_with_the_baselines(case):
    row = measure_memory(replace(case, batch=8, size=16))
    assert row.figures["ratio"] == pytest.approx(row.figures["MB"] / row.figures["baseline MB"])
    assert row.figures["ratio"] >= 1


@pytest.mark.parametrize("kind", ["train", "inference"])
def test_a_case_is_compared_with_its_baseline_and_its_floor(kind):
    row = measure(Case("prodpoly_resnet18_cifar", "resnet18_cifar", 1, 32, kind), seconds=0, least=1)
    assert row.case == f"prodpoly_resnet18_cifar, {kind}, batch 1"
    taken = row.details["seconds"]
    assert row.figures == {
        "eager ms": 1e3 * taken["eager ours"],
        "eager rate": taken["eager baseline"] / taken["eager ours"],
        "eager/floor": taken["eager ours"] / taken["eager floor"],
    }
    assert row.goals == ()  # which are for compiled networks


def test_products_take_part():
    model = create_model("prodpoly_resnet18_cifar", width=4)
    start_products(model)
    scales = [parameter for key, parameter in model.named_parameters() if key.endswith("alpha")]
    assert len(scales) == 6
    assert all(scale == 1 for scale in scales)
    start_products(nn.Linear(2, 2))  # nothing to do


def test_the_goals():
    goals = {str(case).partition(", batch")[0]: list(map(str, case.goals)) for case in FULL if isinstance(case, Case)}
    assert goals == {
        f"{name}, {kind}": [goal]
        for kind in ("train", "inference")
        for name, goal in (
            ("prodpoly_resnet18_cifar", "compiled/floor <= 1.05"),
            ("prodpoly_resnet50", "compiled rate >= 0.9"),
        )
    }
