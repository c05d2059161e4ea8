"""Proofs: what they state is never exceeded, and what is open is said."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pinets import CCP, NCP, NCPSkip
from pinets.cli import main
from pinets.encrypted import (
    Client,
    EncryptedError,
    Parameters,
    PlanError,
    RangeWarning,
    Server,
    make_keys,
    plan_network,
    read_plan,
)
from pinets.encrypted.grid import pack_grid
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.latency import LatencyProgram, pack, unpack
from pinets.encrypted.proof import Enclosed, ProvingEvaluator, prove
from pinets.encrypted.simulate import SimulatedEvaluator, outputs_and_noise
from pinets.encrypted.throughput import ThroughputProgram
from pinets.models import create_model

pytest.importorskip("tenseal")

SMALL = {"rings": (1024, 2048), "insecure": True, "estimate_time": False}


def worst_inputs(circuit, low, high, goal, steps=30, starts=16):
    """Inputs in the range that gradient ascent finds for a goal (one number for each input of a batch)."""
    generator = torch.Generator().manual_seed(3)
    x = low + (high - low) * torch.rand(starts, circuit.size, generator=generator, dtype=torch.float64).round()
    for step in range(steps):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(goal(x).sum(), x)
        x = (x + (0.3 if 2 * step < steps else 0.05) * (high - low) * slope.sign()).clamp(low, high)
    return x.detach()


def simulated(plan, circuit, inputs, seed):
    """The outputs with check values, with simulated noise."""
    evaluator, scale, slots = (
        SimulatedEvaluator(plan.parameters, seed=seed),
        plan.parameters.scale,
        plan.parameters.slots,
    )
    if plan.packing == "latency":
        entry = evaluator.encrypt(np.stack([pack(one, plan.layout, slots) for one in inputs]), scale)
        out = LatencyProgram(circuit, plan.layout, slots).run(evaluator, [entry], plan.output_scale)
    elif plan.packing == "grid":
        packed = np.stack([pack_grid(one, plan.grid, slots) for one in inputs], axis=1)
        entries = [evaluator.encrypt(one, scale) for one in packed]
        out = GridProgram(circuit, plan.grid, slots).run(evaluator, entries, plan.output_scale)
    else:
        entries = [evaluator.encrypt(column, scale) for column in inputs.T]
        outs = ThroughputProgram(circuit).run(evaluator, entries, plan.output_scale)
        return np.stack([out.values for out in outs], axis=1)
    return np.stack([unpack(one, circuit.output.rows) for one in out.values])


def attack(plan, bare):
    """The largest output and deviation that a search finds, against what is proven; and the numbers inside."""
    circuit = bare.with_check(plan.check_weights)
    proof = prove(plan, bare)
    goals = [lambda x: circuit(x).abs().amax(1), lambda x: outputs_and_noise(circuit, x)[1].amax(1)]
    goals += [
        lambda x, number=number: circuit.values(x)[number].abs().amax(1) for number in range(1, len(circuit.sizes))
    ]
    found = torch.cat([worst_inputs(circuit, plan.low, plan.high, goal) for goal in goals])
    expected = circuit(found).numpy()
    deviation = max(float(np.abs(simulated(plan, circuit, found.numpy(), seed) - expected).max()) for seed in (1, 2))
    # the numbers inside, with the bits that they leave at their level
    bits, levels = [], plan.parameters.levels
    for value, spent in zip(circuit.values(found)[1:], circuit.depths[1:], strict=True):
        modulus = sum(plan.parameters.prime_bits[: levels - spent + 1])
        bits.append(modulus - 1 - math.log2(float(value.abs().max()) * plan.parameters.scale))
    assert np.abs(expected).max() <= proof.output
    assert deviation <= proof.deviation
    assert min(bits) >= proof.headroom
    return deviation / proof.deviation


def network_of(number):
    """One of many small networks of different kinds, widths and orders, with its input shape."""
    torch.manual_seed(number)
    make = (CCP, NCP, NCPSkip)[number % 3]
    if number % 10 == 9:
        return create_model("strict_convnet", widths=(2, 2), in_channels=1, num_classes=2).double().eval(), (1, 4, 4)
    size = 2 + number % 7
    return make(size, 1 + number % 3, rank=2 + number % 4, order=2 + number % 2).double(), (size,)


def planned(number):
    network, shape = network_of(number)
    network.requires_grad_(False)
    inputs = 2 * torch.rand(16, *shape, dtype=torch.float64) - 1
    packing = "grid" if len(shape) == 3 else ("latency", "throughput")[number // 3 % 2]
    return network, plan_network(network, inputs, packing=packing, proof=True, precision=1e-2, **SMALL)


@pytest.mark.parametrize("number", [0, 1, 3, 9])
def test_no_search_exceeds_a_proof(number):
    _, (plan, circuit) = planned(number)
    assert plan.proven
    assert 0 < attack(plan, circuit) <= 1
    assert "for every input in the range an output deviates by at most" in str(plan)


@pytest.mark.slow
def test_no_search_exceeds_a_hundred_proofs():
    shares = []
    for number in range(100):
        _, (plan, circuit) = planned(number)
        shares.append(attack(plan, circuit))
    print(f"largest deviation found, as a share of the proven one: {max(shares):.2g}, median {np.median(shares):.2g}")
    assert max(shares) <= 1


def test_seal_stays_within_the_proof():
    network, (plan, circuit) = planned(0)
    secret, keys = (one.to_bytes() for one in make_keys(plan))
    client, server = Client(plan, secret), Server(plan, circuit, workers=1)
    inputs = worst_inputs(circuit, plan.low, plan.high, lambda x: circuit(x).abs().amax(1), starts=4)
    outputs = client.decrypt(server.evaluate(client.encrypt(inputs.numpy()), server.load_keys(keys)))
    assert np.abs(outputs - network(inputs).numpy()).max() <= plan.proven_deviation


def test_products_of_enclosures_hold_all_products():
    evaluator = ProvingEvaluator(Parameters(1024, (50, 40, 40, 50), 40, insecure=True))
    generator = np.random.default_rng(0)
    slots = evaluator.parameters.slots

    def draw():
        return Enclosed(generator.normal(size=slots), 2, 2.0**40, *generator.uniform(0, 0.3, size=(2, slots)))

    left, right = draw(), draw()
    out = evaluator.multiply_plain(left, right)
    for _ in range(50):
        a, b = (one.values + generator.uniform(-1, 1, slots) * one.radius for one in (left, right))
        c, d = (x + generator.uniform(-1, 1, slots) * one.deviation for x, one in ((a, left), (b, right)))
        assert (np.abs(a * b - out.values) <= out.radius + 1e-12).all()
        assert (np.abs(c * d - a * b) <= out.deviation + 1e-12).all()


def test_a_proof_that_does_not_close_says_what_is_open():
    torch.manual_seed(0)
    network = CCP(200, 2, rank=8, order=16).double()
    inputs = 2 * torch.rand(8, 200, dtype=torch.float64) - 1
    with pytest.raises(
        PlanError, match=r"numbers can exceed the modulus by .* bits for inputs in the range.* What would"
    ) as caught:
        plan_network(network, inputs, packing="latency", proof=True, **{**SMALL, "rings": (2048,)})
    assert "inputs from -0" in str(caught.value)
    assert "times smaller (weight decay" in str(caught.value)


def test_a_larger_ring_is_taken_where_the_bound_is_of_no_use(monkeypatch):
    torch.manual_seed(0)
    network, inputs = CCP(6, 2, rank=3, order=2).double(), 2 * torch.rand(8, 6, dtype=torch.float64) - 1
    options = {"packing": "latency", "proof": True, "rings": (8192, 16384), "estimate_time": False}
    plan, _ = plan_network(network, inputs, **options)
    assert (plan.parameters.ring, plan.proof_is_useful) == (8192, True)
    share = plan.proven_deviation / plan.largest_output
    monkeypatch.setattr("pinets.encrypted.plan._USEFUL", share / 2)
    assert not plan.proof_is_useful
    larger, _ = plan_network(network, inputs, **options)
    assert (larger.parameters.ring, larger.proof_is_useful) == (16384, True)


def test_inputs_outside_a_proven_range_are_refused():
    _, (plan, _) = planned(0)
    client = Client(plan, make_keys(plan)[0].to_bytes())
    outside = np.full((1, *plan.input_shape), 2 * plan.high)
    with pytest.raises(
        EncryptedError, match=r"are outside the range of the plan.*The plan's proof does not hold for them"
    ):
        client.encrypt(outside)
    with pytest.warns(RangeWarning, match="are outside the range"):
        client.encrypt(outside, allow=True)


def test_a_plan_without_a_proof_is_refused_where_one_is_demanded(tmp_path, capsys):
    model = "CCP(4, 2, rank=3, order=2)"
    assert main(["encrypt", "plan", model, "--prove", "--packing", "latency", "--out", str(tmp_path / "a")]) == 0
    assert "but for a chance of 2^-40 in the noise" in capsys.readouterr().out
    proven = read_plan(tmp_path / "a" / "client")
    assert proven.proven_deviation >= proven.deviation
    assert main(["encrypt", "plan", model, "--packing", "latency", "--out", str(tmp_path / "b")]) == 0
    np.save(tmp_path / "x.npy", np.zeros((1, 4)))
    arguments = ["--client", str(tmp_path / "b" / "client"), "--out", str(tmp_path / "asked"), "--prove"]
    assert main(["encrypt", "encrypt", str(tmp_path / "x.npy"), *arguments]) != 0
    assert "has no proof: make one with `pinets encrypt plan ... --prove`" in capsys.readouterr().err
    assert not (tmp_path / "asked").exists()


def test_a_plan_that_claims_a_proof_without_room_is_refused():
    _, (plan, _) = planned(0)
    with pytest.raises(PlanError, match="proven_deviation must be positive, and numbers proven to fit"):
        type(plan).from_json(replace(plan, proven=False).to_json())
