from __future__ import annotations

import json

import pytest
import torch

from pinets import CCP
from pinets.deploy.encrypted import plan_network

pytest.importorskip("tenseal")

from pinets.bench.encrypted import Case, bench_encrypted, run_tenseal


def test_a_row_has_ours_and_tenseals_time():
    network, images = CCP(6, 3, rank=4, order=2), torch.rand(8, 6)
    case = Case("tiny", network, images, images[:2], torch.zeros(2).long())
    seen = []
    options = {"packing": "latency", "estimate_time": False}
    bench = bench_encrypted([case], workers=1, peer_images=1, options=options, on_row=seen.append)
    (row,) = bench.rows
    assert seen == [row]
    assert row.single.deviation < 1e-4
    assert row.ratio == row.tenseal.seconds / row.single.evaluate_seconds
    assert "tiny" in str(row)
    assert json.loads(json.dumps(bench.to_json()))["rows"][0]["ratio"] == row.ratio


def test_tenseal_is_used_rightly():
    """Without constants, which its matrix product is wrong after (its issue 462), it gives the network's outputs."""
    network, images = CCP(6, 3, rank=4, order=2).double(), torch.rand(8, 6, dtype=torch.float64)
    plan, circuit = plan_network(network, images, packing="latency", estimate_time=False)
    for factor in circuit.products[0].factors:
        factor.constant.zero_()
    assert run_tenseal(circuit, plan.parameters, images[:1]).deviation < 1e-3
