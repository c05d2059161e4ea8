from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pinets import CCP, NCP, PowerSum
from pinets.encrypted import Parameters, Plan, PlanError, compile_network, make_plan, plan_network, run_trial
from pinets.encrypted.circuit import Affine, Circuit, Product
from pinets.encrypted.simulate import Simulated, SimulatedEvaluator, outputs_and_noise


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
    assert trial.deviation <= plan.deviation <= 1000 * trial.deviation  # what was foretold has the right size
    assert trial.agreement == 1.0


def test_a_single_output_is_no_class(tmp_path):
    network, inputs = CCP(4, 1, rank=4, order=2), torch.rand(20, 4)
    trial = run_trial(*plan_for(network, inputs, **SMALL), network, inputs[:2], tmp_path, workers=1)
    assert trial.agreement is None
    assert "class" not in str(trial)


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
    with pytest.raises(PlanError, match="another format, 7 instead of 4"):
        Plan.from_json({**plan.to_json(), "format": 7})
    incomplete = plan.to_json()
    del incomplete["depth"]
    with pytest.raises(PlanError, match=r"plan\.depth is missing"):
        Plan.from_json(incomplete)


def test_what_is_only_expected_does_not_make_another_plan():
    plan, _ = plan_for(CCP(6, 2, rank=3, order=2), torch.rand(9, 6), **SMALL)
    again = replace(
        plan, seconds=7.0, proven=False, check_tolerance=7.0, deviation=7.0, largest_output=7.0, headroom_bits=7.0
    )
    assert replace(again, key_bytes=7, weight_bytes=7, ciphertext_bytes=7).identity == plan.identity
    assert replace(plan, rotations=(1, 2, 3)).identity != plan.identity


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rotations": "12"}, r"plan\.rotations must be a list of values, each a whole number, got '12'"),
        ({"rotations": [1, "2"]}, r"plan\.rotations must be a list of values, each a whole number, got \[1, '2'\]"),
        ({"outputs": True}, r"plan\.outputs must be a whole number, got True"),
        ({"low": float("nan")}, r"plan\.low must be a number, got nan"),
        ({"packing": "both"}, r"plan\.packing must be 'latency' or 'throughput' or 'grid', got 'both'"),
        ({"parameters": 7}, r"plan\.parameters must be Parameters \(ring, .*, got 7"),
        ({"parameters": {"ring": 2048}}, r"plan\.parameters\.prime_bits is missing"),
        ({"layout": None}, "the latency packing has a layout and the grid packing a grid, got None"),
        ({"more": 1}, "there is no key 'plan.more'"),
    ],
)
def test_a_plan_whose_values_do_not_fit_is_refused(change, message):
    plan, _ = plan_for(CCP(6, 2, rank=3, order=2), torch.rand(9, 6), packing="latency", **SMALL)
    with pytest.raises(PlanError, match=message):
        Plan.from_json({**json.loads(json.dumps(plan.to_json())), **change})


@pytest.mark.parametrize("packing, count", [("throughput", 200), ("latency", 20)])
@pytest.mark.parametrize("network", [nn.Sequential(nn.Linear(4, 4), PowerSum(2)), CCP(4, 2, rank=3, order=3)])
def test_the_largest_of_many_deviations_stays_below_the_promise(network, packing, count, tmp_path):
    network = network.double().requires_grad_(False)
    inputs = 2 * torch.rand(count, 4, dtype=torch.float64) - 1
    plan, circuit = plan_for(network, inputs, packing=packing, **SMALL)
    trial = run_trial(plan, circuit, network, inputs, tmp_path, workers=1)
    assert trial.deviation <= plan.deviation <= 20 * trial.deviation


def test_weights_that_are_exact_here_have_rounding_errors_too():
    """SEAL's scales are no powers of two, so a weight of 1/2 is rounded: by up to half a unit, evenly distributed."""
    evaluator = SimulatedEvaluator(Parameters(2048, (45, 35, 35, 45), 35, insecure=True))
    inputs = [Simulated(np.full(4000, size), 2, 2.0**35) for size in (1000.0, 300.0, 70.0)]
    sums = evaluator.weighted_sum(inputs, np.array([0.5, 0.25, 0.0]), 2.0**35).values
    expected = math.sqrt((1000**2 + 300**2) / 12) / 2**35  # a weight of zero is no product at all
    assert np.abs(sums - 575).std() == pytest.approx(expected * math.sqrt(1 - 2 / math.pi), rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_the_promise_holds_for_inputs_far_from_zero(seed, tmp_path):
    """There the rounding errors of the weights count most."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(3, 4), PowerSum(2), nn.Linear(4, 2)).double().requires_grad_(False)
    inputs = 1000 + torch.rand(100, 3, dtype=torch.float64)
    plan, circuit = plan_for(network, inputs, packing="throughput", **SMALL)
    trial = run_trial(plan, circuit, network, inputs, tmp_path, workers=1)
    assert trial.deviation <= plan.deviation <= 100 * trial.deviation


def test_the_promise_is_what_the_wanted_precision_is_compared_with():
    circuit, inputs = compile_network(CCP(4, 2, rank=3, order=2), torch.zeros(1, 4)), 9 * torch.rand(9, 4)
    options = {"packing": "latency", "estimate_time": False, **SMALL}
    promised = make_plan(circuit, inputs, **options).relative_deviation
    plan = make_plan(circuit, inputs, precision=1.001 * promised, **options)
    assert f"{plan.deviation:.1e}, {promised:.1e} of the largest output" in str(plan)
    with pytest.raises(PlanError, match=r"out of reach: the nearest is \d") as refused:
        make_plan(circuit, inputs, precision=1e-3 * promised, **options)
    nearest = float(re.search(r"the nearest is (\S+),", str(refused.value))[1])
    assert 1e-3 * promised < nearest <= 1.05 * promised  # it is rounded
    assert make_plan(circuit, inputs, precision=1.1 * nearest, **options).relative_deviation <= 1.1 * nearest


def test_noise_is_largest_where_factors_are_not_where_outputs_are():
    """A product u v of noise e in each factor has noise v e + u e, however small u v is; here written out."""
    weights, inputs = torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[1.0, 1.0], [0.0, 5.0]])
    factors = [Affine({0: row[None].double()}, torch.zeros(1, dtype=torch.float64)) for row in weights]
    product = Affine({1: torch.ones(1, 1, dtype=torch.float64)}, torch.zeros(1, dtype=torch.float64))
    circuit = Circuit(2, (Product(tuple(factors)),), product)
    outputs, noise = outputs_and_noise(circuit, inputs.double())
    assert outputs.tolist() == [[12.0], [0.0]]
    u, v = (inputs @ weights.T).T
    of_u, of_v = 3**2 + 1, 4**2 + 1  # the input's, and its own
    assert noise[:, 0].tolist() == (v**2 * of_u + u**2 * of_v + 1 + 1).tolist()


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
    with pytest.raises(PlanError, match=r"keys take .* MB and ciphertexts .* and 1 MB is free"):
        plan_for(CCP(4, 2, rank=3, order=2), torch.rand(9, 4), memory=10**6, packing="latency")


def test_outputs_that_are_not_finite_are_refused():
    with pytest.raises(PlanError, match="network are not finite"):
        plan_for(CCP(4, 2, rank=3, order=8), torch.full((2, 4), 1e60, dtype=torch.float64), packing="latency")


def test_outputs_that_are_all_zero_are_refused():
    network = nn.Sequential(nn.Linear(4, 2, bias=False), PowerSum(2))
    with pytest.raises(PlanError, match="network are all 0 on the calibration inputs"):
        plan_for(network, torch.zeros(3, 4))


def test_large_outputs_are_made_to_fit(tmp_path):
    network = CCP(6, 2, rank=3, order=4).double().requires_grad_(False)
    inputs = 20 * torch.randn(50, 6, dtype=torch.float64)
    plan, circuit = plan_for(network, inputs, packing="latency", **SMALL)
    largest = float(network(inputs).abs().max())
    assert largest > 1e3
    assert largest <= plan.output_bound
    trial = run_trial(plan, circuit, network, inputs[:3], tmp_path, workers=1)
    assert trial.deviation <= 1e-4 * largest


@pytest.mark.parametrize("packing", ["latency", "throughput"])
@pytest.mark.parametrize("bias", [1.4, 1.0])
def test_constants_as_large_as_the_outputs_are_made_to_fit(packing, bias, tmp_path):
    """SEAL refuses to encode constants from a quarter of the modulus on."""
    network = nn.Linear(1, 14).double().requires_grad_(False)
    nn.init.constant_(network.bias, bias)
    nn.init.constant_(network.weight, 1e-3)
    inputs = torch.linspace(1, 2, 3, dtype=torch.float64)[:, None]
    plan, circuit = plan_for(network, inputs, packing=packing, **SMALL)
    trial = run_trial(plan, circuit, network, inputs, tmp_path, workers=1)
    assert trial.deviation <= plan.deviation


def test_inputs_must_have_a_batch_axis():
    with pytest.raises(ValueError, match="with a batch axis"):
        plan_network(CCP(4, 2, rank=3, order=2), torch.rand(4))


def test_a_mirror_image_is_a_second_input_whose_outputs_the_client_averages(tmp_path):
    network = nn.Sequential(nn.Flatten(), CCP(12, 3, rank=4, order=2)).double()
    images = torch.rand(20, 1, 3, 4, dtype=torch.float64)
    plan, circuit = plan_for(network, images, **SMALL)
    plain = run_trial(plan, circuit, network, images[:2], tmp_path / "plain", workers=1)
    with torch.no_grad():
        mean = (network(images[:2]) + network(images[:2].flip(-1))) / 2
    labels = mean.argmax(1)
    both = run_trial(plan, circuit, network, images[:2], tmp_path / "both", labels=labels, mirror=True, workers=1)
    assert both.largest == pytest.approx(float(mean.abs().max()), rel=1e-9)
    assert (both.inputs, both.accuracy, both.plain_accuracy) == (2, 1.0, 1.0)
    assert both.deviation <= 1e-4 * both.largest
    assert both.request_bytes == pytest.approx(2 * plain.request_bytes, rel=0.01)
    with pytest.raises(ValueError, match=r"only images .* have a mirror image"):
        run_trial(plan, circuit, network, images[:2].flatten(1), tmp_path / "no", mirror=True)
