from __future__ import annotations

import json

import pytest
import torch

from pinets import CCP
from pinets.encrypted import plan_network

pytest.importorskip("tenseal")

from benchmarks.encrypted import Case, measure, run_tenseal


def test_a_row_has_ours_and_tenseals_time():
    network, images = CCP(6, 3, rank=4, order=2), torch.rand(8, 6)
    case = Case("tiny", network, images, images[:2], torch.zeros(2).long())
    row = measure(case, workers=1, peer_images=1, options={"packing": "latency", "estimate_time": False})
    assert row.figures["deviation"] < 1e-4
    assert row.figures["TenSEAL/ours"] == row.figures["TenSEAL s"] / row.figures["s"]
    assert row.case.startswith("tiny, ring ")
    assert json.loads(json.dumps(row.to_json()))["workers"] == 1


def test_tenseal_is_used_rightly():
    """Without constants, which its matrix product is wrong after (its issue 462), it gives the network's outputs."""
    network, images = CCP(6, 3, rank=4, order=2).double(), torch.rand(8, 6, dtype=torch.float64)
    plan, circuit = plan_network(network, images, packing="latency", estimate_time=False)
    for factor in circuit.products[0].factors:
        factor.constant.zero_()
    assert run_tenseal(circuit, plan.parameters, images[:1]).deviation < 1e-3
