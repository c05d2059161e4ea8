"""Numbers that must fit the modulus: proven or searched for, and what shows that they did not fit."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from pinets import CCP, NCP
from pinets.encrypted import (
    Client,
    PlanError,
    RangeWarning,
    Server,
    compile_network,
    make_keys,
    make_plan,
    plan_network,
)
from pinets.encrypted.planner import check_weights
from pinets.encrypted.reach import SEARCH_MARGIN, proven_reach, searched_reach

pytest.importorskip("tenseal")

SMALL = {"rings": (2048,), "insecure": True, "estimate_time": False}


def ascend(network, low, high, size, steps=150, starts=64):
    """Inputs inside a box at which a network's outputs are large, by plain gradient ascent."""
    generator = torch.Generator().manual_seed(7)
    x = low + (high - low) * torch.rand(starts, size, generator=generator, dtype=torch.float64)
    for _ in range(steps):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(network(x).abs().sum(), x)
        x = (x + 0.05 * (high - low) * slope.sign()).clamp(low, high)
    return x.detach()


def exchanged(plan, circuit, inputs):
    """The decrypted outputs for inputs."""
    secret, keys = (one.to_bytes() for one in make_keys(plan))
    client, server = Client(plan, secret), Server(plan, circuit, workers=1)
    return client.decrypt(server.evaluate(client.encrypt(inputs), server.load_keys(keys)))


@pytest.mark.parametrize("make", [CCP, NCP])
@pytest.mark.parametrize("low, high", [(-1.0, 1.0), (0.0, 3.0)])
def test_no_input_in_the_range_exceeds_the_reach(make, low, high):
    torch.manual_seed(0)
    network = make(12, 3, rank=6, order=3).double().requires_grad_(False)
    circuit = compile_network(network, torch.zeros(1, 12, dtype=torch.float64))
    largest = float(network(ascend(network, low, high, 12)).abs().max())
    proven = proven_reach(circuit, low, high)
    searched = searched_reach(circuit, low, high, torch.zeros(1, 12, dtype=torch.float64))
    assert largest <= proven.output
    assert largest <= searched.output / 2**SEARCH_MARGIN * 1.01  # the search is as good as this one
    assert searched.output / 2**SEARCH_MARGIN <= proven.output  # and what it finds exists
    assert (proven.proven, searched.proven) == (True, False)
    assert proven.inner.keys() == searched.inner.keys()
    assert all(size / 2**SEARCH_MARGIN <= proven.inner[spent] for spent, size in searched.inner.items())


def test_inputs_found_by_gradient_ascent_inside_the_range_come_out_right():
    """Random inputs give outputs below 2; inputs in the same range can give 50, for which there must be room."""
    torch.manual_seed(0)
    network = CCP(64, 1, rank=8, order=4).double().requires_grad_(False)
    calibration = 2 * torch.rand(256, 64, dtype=torch.float64) - 1
    plan, circuit = plan_network(network, calibration, packing="latency", **SMALL)
    worst = ascend(network, plan.low, plan.high, 64)
    expected = network(worst).numpy()
    assert np.abs(expected).max() > 8 * plan.largest_output  # more than any margin on the calibration inputs
    assert "proven to fit" in str(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outputs = exchanged(plan, circuit, worst[:4].numpy())
    np.testing.assert_allclose(outputs, expected[:4], rtol=1e-3)


@pytest.mark.parametrize("packing", ["latency", "throughput"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_that_overflow_are_warned_of(packing, outputs):
    torch.manual_seed(0)
    network = CCP(6, outputs, rank=4, order=3).double().requires_grad_(False)
    inputs = 20 * torch.rand(30, 6, dtype=torch.float64) - 10
    plan, circuit = plan_network(network, inputs, packing=packing, **SMALL)
    values = network(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(exchanged(plan, circuit, inputs[:4].numpy()), values[:4].numpy(), atol=0.1)
    # the same plan with room for numbers up to a tenth of the outputs: constants overflow wherever they stand
    largest = inputs[values.abs().amax(1).argmax()].repeat(plan.batch if packing == "throughput" else 1, 1).numpy()
    room = float(values.abs().max()) / 10
    scale = 2.0 ** (plan.parameters.prime_bits[0] - 1) / room
    too_small = replace(plan, output_bound=room, output_scale=scale, check_tolerance=room / 4096)
    with pytest.warns(RangeWarning, match=r"\d+ of \d+ outputs do not match their check values"):
        exchanged(too_small, circuit, largest)


def wrapped(period):
    """How a coefficient that wrapped around changes the slots, by the formula of CKKS: one column per coefficient.

    Real slots that repeat with a period are polynomials in Y = X^(N / 2 period) with f(1 / Y) = f(Y), which have the
    basis 1 and Y^j - Y^(2 period - j). Slot t is the value at the root of unity with the exponent 3^t.
    """
    exponents = [pow(3, slot, 4 * period) for slot in range(period)]
    roots = np.exp(2j * math.pi * np.array(exponents) / (4 * period))
    columns = [np.ones(period)] + [(roots**j - roots ** (2 * period - j)).real for j in range(1, period)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("outputs", [*range(1, 40), 64, 100, 127, 200, 300])
def test_every_coefficient_that_wraps_around_changes_a_check_value(outputs):
    """By more than the tolerance, for several turns around the modulus (which is 1 here)."""
    weights = np.array(check_weights(outputs))
    assert np.abs(weights).sum(1).max() < 1  # so check values fit wherever the outputs do
    period = 1 << (outputs + 1).bit_length()
    form = np.zeros((2, period))
    form[:, :outputs] = weights
    form[[0, 1], [outputs, outputs + 1]] = -1
    shown = np.abs(form @ wrapped(period)).max(0)
    assert shown.min() > 4 * 2.0**-14
    # one ciphertext for each output: a check value changes by its weight, up to whole turns of its own
    turns = np.arange(1, 5)[:, None] * weights[:, None, :]
    assert np.abs(turns - turns.round()).max(0).min() > 2.0**-13


def test_a_plan_for_which_the_proof_is_too_loose_says_so():
    torch.manual_seed(0)
    network = CCP(200, 2, rank=8, order=16).double().requires_grad_(False)
    circuit = compile_network(network, torch.zeros(1, 200, dtype=torch.float64))
    calibration = 2 * torch.rand(64, 200, dtype=torch.float64) - 1
    plan = make_plan(circuit, calibration, packing="latency", **{**SMALL, "rings": (4096,)})
    assert not plan.proven
    assert "with a margin of 2 bits, not proven" in str(plan)
    largest = float(network(ascend(network, plan.low, plan.high, 200)).abs().max())
    assert largest <= plan.output_bound / 2  # half of the margin is left


def test_room_for_typical_inputs_alone():
    torch.manual_seed(0)
    network = CCP(200, 2, rank=8, order=16).double().requires_grad_(False)
    calibration = 2 * torch.rand(64, 200, dtype=torch.float64) - 1
    options = {"packing": "latency", **SMALL, "rings": (4096,), "precision": 1e-3}
    plan, circuit = plan_network(network, calibration, room="inputs", **options)
    assert (plan.proven, plan.covers) == (False, "inputs")
    assert "2^20 times those of the calibration inputs; other inputs in the range may exceed it" in str(plan)
    largest = float(circuit.with_check(plan.check_weights)(calibration).abs().max())
    assert largest * 2**20 <= plan.output_bound <= largest * 2**22
    with pytest.raises(PlanError, match="a proof is about every input in the range"):
        plan_network(network, calibration, room="inputs", proof=True, **options)
