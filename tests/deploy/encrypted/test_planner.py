from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from pinets import CCP, NCP
from pinets.deploy.encrypted import Plan, PlanError, compile_network, make_plan, plan_network, run_trial


def plan_for(network, inputs, **options):
    return plan_network(network, inputs, **{"estimate_time": False, **options})


SMALL = {"rings": (2048,), "insecure": True}


@pytest.mark.parametrize("packing", ["latency", "throughput"])
def test_a_plan_that_says_it_works_does(compiled, packing, tmp_path):
    network, circuit, shape = compiled
    inputs = torch.rand(20, *shape, dtype=torch.float64)
    plan = make_plan(circuit, inputs, packing=packing, estimate_time=False, **SMALL)
    trial = run_trial(plan, circuit, network, inputs[:2], tmp_path, workers=1)
    assert trial.deviation <= 1e-4 * float(network(inputs).abs().max())
    assert trial.deviation <= 20 * plan.deviation  # what was foretold, from two inputs, has the right size
    assert trial.agreement == 1.0


def test_the_smallest_ring_is_taken_at_128_bits():
    inputs = torch.rand(20, 16)
    plan, _ = plan_for(CCP(16, 4, rank=8, order=4), inputs, packing="latency")
    assert (plan.parameters.ring, plan.depth, plan.parameters.levels) == (8192, 4, 4)
    assert plan.parameters.modulus_bits <= 218
    assert not plan.parameters.insecure
    deep, _ = plan_for(NCP(16, 4, rank=8, order=5), inputs, packing="latency")
    assert deep.parameters.ring == 16384
    assert "128-bit secure" in str(deep)


def test_a_plan_is_what_was_written():
    plan, _ = plan_for(CCP(6, 2, rank=3, order=2), torch.rand(9, 6), **SMALL)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert "NOT SECURE" in str(plan)
    assert replace(plan, low=-1.0).identity != plan.identity
    with pytest.raises(PlanError, match="another format, 7 instead of 1"):
        Plan.from_json({**plan.to_json(), "format": 7})
    incomplete = plan.to_json()
    del incomplete["depth"]
    with pytest.raises(PlanError, match="not complete"):
        Plan.from_json(incomplete)


def test_many_inputs_are_packed_for_throughput():
    circuit = compile_network(CCP(16, 4, rank=8, order=2), torch.zeros(1, 16))
    few, many = (make_plan(circuit, torch.rand(9, 16), inputs=count, estimate_time=False) for count in (1, 10_000))
    assert (few.packing, many.packing) == ("latency", "throughput")
    assert many.batch == many.parameters.slots
    assert many.rotations == ()


def test_too_deep_a_network_is_refused_with_the_nearest():
    inputs = torch.rand(9, 4) / 4
    with pytest.raises(PlanError, match="a ring of 4096 has room for 1: a ring of 8192 has room"):
        plan_for(CCP(4, 2, rank=3, order=2), inputs, rings=(4096,), packing="latency")
    circuit = compile_network(NCP(4, 2, rank=3, order=20), torch.zeros(1, 4))
    with pytest.raises(PlanError, match=r"needs 39 multiplications in a row.* has room for \d+: the nearest network"):
        make_plan(circuit, inputs, estimate_time=False, packing="latency")


def test_precision_out_of_reach_is_refused_with_the_nearest():
    with pytest.raises(
        PlanError, match=r"a precision of 1.0e-15 is out of reach: the nearest is \d.\de-\d+, in a ring"
    ):
        plan_for(CCP(4, 2, rank=3, order=2), torch.rand(9, 4), precision=1e-15, packing="latency")


def test_not_enough_memory_is_said_before():
    with pytest.raises(PlanError, match=r"keys take .* MB and ciphertexts .* and 1 MB is there"):
        plan_for(CCP(4, 2, rank=3, order=2), torch.rand(9, 4), memory=10**6, packing="latency")


def test_outputs_that_are_not_finite_are_refused():
    with pytest.raises(PlanError, match="outputs are not finite"):
        plan_for(CCP(4, 2, rank=3, order=8), torch.full((2, 4), 1e60, dtype=torch.float64), packing="latency")


def test_large_outputs_are_made_to_fit(tmp_path):
    network = CCP(6, 2, rank=3, order=4).double().requires_grad_(False)
    inputs = 20 * torch.randn(50, 6, dtype=torch.float64)
    plan, circuit = plan_for(network, inputs, packing="latency", **SMALL)
    largest = float(network(inputs).abs().max())
    assert largest > 1e3
    assert 2 * largest <= plan.output_bound <= 16 * largest
    trial = run_trial(plan, circuit, network, inputs[:3], tmp_path, workers=1)
    assert trial.deviation <= 1e-4 * largest


def test_inputs_must_have_a_batch_axis():
    with pytest.raises(ValueError, match="with a batch axis"):
        plan_network(CCP(4, 2, rank=3, order=2), torch.rand(4))
