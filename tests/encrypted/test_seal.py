"""SEAL through its bindings, operation by operation, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pinets.encrypted import FileError, Parameters, PlanError, compile_network
from pinets.encrypted.latency import LatencyProgram, choose_layout, pack, unpack
from pinets.encrypted.machine import measure_costs
from pinets.encrypted.seal import SealDecryptor, SealEvaluator, SealScheme, make_seal_keys

PARAMETERS = Parameters(1024, (45, 35, 35, 35, 50), 35, insecure=True)
SLOTS = PARAMETERS.slots


@pytest.fixture(scope="module")
def seal():
    scheme = SealScheme(PARAMETERS)
    secret, relinearisation, rotation = make_seal_keys(scheme, [1, 7, -3])
    return SealDecryptor(scheme, secret), SealEvaluator(scheme, relinearisation, rotation, [1, 7, -3])


@pytest.fixture
def numbers():
    return np.random.default_rng(0).normal(size=(2, SLOTS))


def test_operations(seal, numbers):
    decryptor, evaluator = seal
    a, b = numbers
    x, y = (evaluator.load(decryptor.encrypt(one, PARAMETERS.scale)) for one in numbers)

    def same(ciphertext, expected):
        np.testing.assert_allclose(decryptor.decrypt(evaluator.save(ciphertext)), expected, atol=1e-4)

    same(x, a)
    assert evaluator.level(x) == 3
    product = evaluator.multiply(x, y)
    same(product, a * b)
    same(evaluator.multiply(x, x), a * a)
    assert evaluator.level(product) == 2
    for step in (1, 7, -3):
        same(evaluator.rotate(x, step), np.roll(a, -step))
    plain = evaluator.encode(b, 3, PARAMETERS.scale)
    same(evaluator.multiply_plain(x, plain), a * b)
    same(evaluator.rescale(evaluator.multiply_plain(x, plain)), a * b)
    same(evaluator.lower(x, 1), a)
    assert evaluator.level(evaluator.lower(x, 1)) == 1
    same(evaluator.weighted_sum([x, y], np.array([0.5, -2.0]), PARAMETERS.scale), 0.5 * a - 2 * b)
    same(evaluator.weighted_sum([x, y], np.zeros(2), PARAMETERS.scale), np.zeros(SLOTS))
    same(evaluator.add_plain(evaluator.lower(x, 3), evaluator.encode(1.5, 3, PARAMETERS.scale)), a + 1.5)
    same(evaluator.add(evaluator.lower(x, 3), y), a + b)


def test_numbers_of_different_scales_are_not_added(seal, numbers):
    decryptor, evaluator = seal
    x = evaluator.load(decryptor.encrypt(numbers[0], PARAMETERS.scale))
    y = evaluator.load(decryptor.encrypt(numbers[1], 2 * PARAMETERS.scale))
    with pytest.raises(ValueError, match="cannot be added"):
        evaluator.add(x, y)


@pytest.mark.parametrize("sizes", [(5, 3, 2), (3, 7, 4), (16, 16, 16)])
def test_a_matrix_after_adding_a_plain_vector(sizes):
    """TenSEAL's issue 462: there, a matrix product after a plain vector was added is silently wrong.

    A product that nothing can be folded through stands between the two.
    """
    first, second, third = sizes

    class Square(nn.Module):
        def forward(self, x):
            return x * x

    network = nn.Sequential(nn.Linear(first, second), Square(), nn.Linear(second, third)).double()
    circuit = compile_network(network, torch.zeros(1, first, dtype=torch.float64))
    x = torch.randn(1, first, dtype=torch.float64)
    scheme = SealScheme(PARAMETERS)
    layout = choose_layout(circuit, SLOTS)
    rotations = [1 << power for power in range(9)]
    secret, *keys = make_seal_keys(scheme, rotations)
    decryptor, evaluator = SealDecryptor(scheme, secret), SealEvaluator(scheme, *keys, rotations)
    entry = evaluator.load(decryptor.encrypt(pack(x[0].numpy(), layout, SLOTS), PARAMETERS.scale))
    program = LatencyProgram(circuit, layout, SLOTS)
    out = unpack(decryptor.decrypt(evaluator.save(program.run(evaluator, [entry], PARAMETERS.scale))), third)
    weight, bias = network[0].weight.detach().numpy(), network[0].bias.detach().numpy()
    hidden = (weight @ x[0].numpy() + bias) ** 2
    expected = network[2].weight.detach().numpy() @ hidden + network[2].bias.detach().numpy()
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_bytes_of_something_else_are_refused(seal):
    decryptor, evaluator = seal
    other = SealScheme(Parameters(1024, (40, 30, 40), 30, insecure=True))
    foreign = SealDecryptor(other, make_seal_keys(other, [])[0]).encrypt(np.zeros(SLOTS), 2.0**30)
    for content in (b"", b"nonsense" * 100, foreign):
        with pytest.raises(FileError, match="not a Ciphertext for these parameters"):
            evaluator.load(content)
        with pytest.raises(FileError):
            decryptor.decrypt(content)


def test_insecure_parameters_need_the_waiver():
    with pytest.raises(PlanError, match="219 bits is not 128-bit secure in a ring of 8192: at most 218"):
        Parameters(8192, (60, 49, 50, 60), 49)
    with pytest.raises(PlanError, match="not 128-bit secure"):
        Parameters(2048, (40, 30, 40), 30)


def test_the_machine():
    costs = measure_costs(PARAMETERS)
    assert 0 < costs("multiply_plain", 1) < costs("multiply_plain", 3)
    assert costs("rotate", 1) < costs("rotate", 3)
