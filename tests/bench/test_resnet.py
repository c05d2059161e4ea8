"""The benchmark of the residual networks, at sizes that take no time."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from pinets.bench.memory import peak_bytes
from pinets.bench.resnet import FULL, QUICK, Case, MemoryCase, bench_resnet, measure, start_products
from pinets.models import create_model


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


BLOCKS = [case for case in QUICK if isinstance(case, MemoryCase)]


@pytest.mark.parametrize("channels_last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_blocks_stay_within_their_memory(case, channels_last):
    row = bench_resnet([case], channels_last=channels_last).rows[0]
    assert row.ratio <= case.goal == 1.10, str(row)


@pytest.mark.parametrize("run", ["train", "inference"])
def test_a_case_is_measured_and_written_down(run):
    case = Case("prodpoly_resnet18_cifar", "resnet18_cifar", 1, 32, run, False, 0.8)
    rows = []
    bench = bench_resnet([case], seconds=0.0, on_row=rows.append)
    assert bench.rows == rows
    (row,) = rows
    assert row.value > 0
    assert row.bound > 0
    assert row.floor > 0
    assert "with nothing of them but convolutions" in str(row)
    assert row.ratio == row.value / row.baseline
    text = json.loads(json.dumps(bench.to_json()))
    assert text["rows"][0]["case"] == f"prodpoly_resnet18_cifar, {run}, eager, batch 1"
    assert bench.summary() in ("0 of 1 goals reached", "1 of 1 goals reached")
    assert f"{row.ratio:.3f} of the baseline's" in str(row)


def test_a_goal_missed_is_said_to_be():
    case = Case("prodpoly_resnet18_cifar", "resnet18_cifar", 1, 32, "inference", False, 0.0)
    row = measure(case, seconds=0.0, layout=torch.contiguous_format, least=1)
    assert row.reached is False
    assert str(row).endswith("; goal 0.000, missed")


def test_products_take_part():
    model = create_model("prodpoly_resnet18_cifar", width=4)
    start_products(model)
    scales = [parameter for key, parameter in model.named_parameters() if key.endswith("alpha")]
    assert len(scales) == 6
    assert all(scale == 1 for scale in scales)
    start_products(nn.Linear(2, 2))  # nothing to do


def test_all_goals_of_the_full_run():
    goals = {str(case).partition(", batch")[0]: case.goal for case in FULL}
    assert goals["prodpoly_resnet18_cifar, train, eager"] == 0.80
    assert goals["prodpoly_resnet18_cifar, inference, eager"] == 0.78
    assert goals["prodpoly_resnet50, inference, compiled"] == 1 / 0.96
    assert goals["prodpoly_resnet50, train, compiled"] == 1 / 0.95
    assert goals["prodpoly_resnet50, train, eager"] == 1 / 0.92
