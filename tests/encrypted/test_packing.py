"""Both packings against the circuit's own numbers, without encryption and without noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pinets import CCP
from pinets.encrypted import Parameters, PlanError, compile_network
from pinets.encrypted.circuit import Affine, Circuit, Product
from pinets.encrypted.latency import LatencyProgram, choose_layout, pack, unpack
from pinets.encrypted.simulate import SimulatedEvaluator
from pinets.encrypted.throughput import ThroughputProgram


def exact(ring, depth):
    """Without noise, and with room for large numbers."""
    return SimulatedEvaluator(Parameters(ring, (60, *(40,) * max(1, depth), 60), 40, insecure=True), noise=False)


def by_latency(circuit, inputs, evaluator):
    slots, scale = evaluator.parameters.slots, evaluator.parameters.scale
    layout = choose_layout(circuit, slots)
    program = LatencyProgram(circuit, layout, slots)
    entries = (evaluator.encrypt(pack(one.numpy(), layout, slots), scale) for one in inputs)
    out = [program.run(evaluator, [entry], scale) for entry in entries]
    assert all(one.level == 0 for one in out)
    return np.stack([unpack(one.values, circuit.output.rows) for one in out])


def by_throughput(circuit, inputs, evaluator):
    scale = evaluator.parameters.scale
    entries = [evaluator.encrypt(column, scale) for column in inputs.T.numpy()]
    out = ThroughputProgram(circuit).run(evaluator, entries, scale)
    assert all(one.level == 0 for one in out)
    return np.stack([one.values for one in out], axis=1)


@pytest.mark.parametrize("packed", [by_latency, by_throughput])
def test_packed_evaluation_gives_the_network(compiled, packed):
    network, circuit, shape = compiled
    inputs = torch.rand(3, *shape, dtype=torch.float64)
    computed = packed(circuit, inputs.flatten(1), exact(2048, circuit.depth))
    np.testing.assert_allclose(computed, network(inputs).flatten(1).numpy(), rtol=1e-6, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(1, 100),
    rank=st.integers(1, 40),
    order=st.integers(1, 6),
    outputs=st.integers(1, 70),
    ring=st.sampled_from([1024, 2048]),
)
def test_any_sizes(size, rank, order, outputs, ring):
    generator = torch.Generator().manual_seed(size + 100 * rank)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    factors = [(normal(rank, size), normal(rank)) for _ in range(order)]
    head, bias, x = normal(outputs, rank), normal(outputs), normal(size) / size**0.5
    product = Product(tuple(Affine({0: matrix}, constant) for matrix, constant in factors))
    circuit = Circuit(size, (product,), Affine({1: head}, bias))
    state = torch.ones(rank, dtype=torch.float64)
    for matrix, constant in factors:
        state = state * (matrix @ x + constant)
    expected = (head @ state + bias).numpy()
    for packed in (by_latency, by_throughput):
        computed = packed(circuit, x[None], exact(ring, circuit.depth))[0]
        np.testing.assert_allclose(computed, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_all_slots_work_on_the_input():
    """Four stacked matrices of 64 x 784 entries, at 4096 a time, with what rounding to powers of two adds."""
    circuit = compile_network(CCP(784, 10, rank=64, order=4), torch.zeros(1, 784))
    evaluator = exact(8192, circuit.depth)
    by_latency(circuit, torch.rand(1, 784), evaluator)
    assert evaluator.counts["multiply_plain", circuit.depth] == 64
    assert 64 * 4096 <= 4 * 64 * 1024
    assert len(evaluator.rotations) <= 12  # keys are large


def test_values_that_do_not_fit_name_the_ring_that_would_hold_them():
    circuit = compile_network(CCP(600, 2, rank=4, order=2), torch.zeros(1, 600))
    with pytest.raises(PlanError, match="do not fit 512 slots: a ring of 2048 would hold them"):
        choose_layout(circuit, 512)
