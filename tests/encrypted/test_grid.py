"""The grid packing against the plain network: layouts without noise, and one small image through SEAL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pinets import CCP
from pinets.encrypted import (
    Client,
    Parameters,
    PlanError,
    RangeWarning,
    Server,
    compile_network,
    make_keys,
    open_client,
    plan_network,
    run_trial,
)
from pinets.encrypted.diagonals import baby_steps
from pinets.encrypted.grid import choose_grid, pack_grid
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.latency import unpack
from pinets.encrypted.server import split_inputs
from pinets.encrypted.simulate import SimulatedEvaluator
from pinets.encrypted.stencil import Stencil, magnitudes, recognise, squares
from pinets.models import create_model


def convnet(widths, in_channels=3, seed=0):
    """A strict_convnet whose batch norms have seen data."""
    torch.manual_seed(seed)
    network = create_model("strict_convnet", widths=widths, in_channels=in_channels, num_classes=3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low, high in (
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
                (module.weight, 0.5, 1.5),
                (module.bias, -0.2, 0.2),
            ):
                nn.init.uniform_(tensor, low, high)
    return network.double().eval().requires_grad_(False)


def by_grid(circuit, inputs, ring):
    """The outputs without encryption and without noise, and the evaluator with its counts."""
    evaluator = SimulatedEvaluator(Parameters(ring, (60, *(40,) * circuit.depth, 60), 40, insecure=True), noise=False)
    slots, scale = evaluator.parameters.slots, evaluator.parameters.scale
    layout = choose_grid(circuit, slots)
    packed = np.stack([pack_grid(one, layout, slots) for one in inputs.flatten(1).numpy()], axis=1)
    out = GridProgram(circuit, layout, slots).run(evaluator, [evaluator.encrypt(one, scale) for one in packed], scale)
    assert out.level == 0
    return np.stack([unpack(one, circuit.output.rows) for one in out.values]), evaluator


@pytest.mark.parametrize(
    "widths, channels, size, ring",
    [
        ((3, 4), 1, (4, 4), 1024),
        ((2, 3, 5), 3, (8, 8), 1024),  # both factors in one ciphertext, channels that are no powers of two
        ((4, 8, 8), 3, (8, 8), 1024),  # factors and channels in several ciphertexts
        ((2, 2, 2, 6), 1, (16, 24), 2048),  # gaps within gaps, and a grid that is no power of two
    ],
)
def test_the_grid_packing_gives_the_network(widths, channels, size, ring):
    network = convnet(widths, channels)
    inputs = torch.rand(2, channels, *size, dtype=torch.float64)
    circuit = compile_network(network, inputs[:1])
    torch.testing.assert_close(circuit(inputs.flatten(1)), network(inputs))
    computed, evaluator = by_grid(circuit, inputs, ring)
    np.testing.assert_allclose(computed, network(inputs).numpy(), rtol=1e-9, atol=1e-9)
    assert len(evaluator.rotations) < 30  # keys are large


def test_pooling_that_rotations_cannot_sum_is_refused():
    network = convnet((2, 3))
    network.pool = torch.nn.AvgPool2d(3)
    circuit = compile_network(network, torch.rand(1, 3, 9, 9, dtype=torch.float64))
    with pytest.raises(PlanError, match="power of two, got 3"):
        choose_grid(circuit, 2048)


def test_encrypted_colour_images_give_the_plain_classes(tmp_path):
    network = convnet((2, 2, 4))
    inputs = torch.rand(8, 3, 8, 8, dtype=torch.float64)
    options = {"rings": (2048,), "insecure": True, "estimate_time": False}
    plan, circuit = plan_network(network, inputs, packing="grid", **options)
    assert (plan.packing, plan.layout, plan.parts) == ("grid", None, 4)
    trial = run_trial(plan, circuit, network, inputs[:2], tmp_path, workers=1)
    assert trial.agreement == 1
    assert trial.deviation <= plan.deviation < 1e-3
    client, keys = open_client(tmp_path / "client"), (tmp_path / "server" / "evaluation.keys").read_bytes()
    request = client.encrypt(inputs[:3].numpy())
    assert len(split_inputs(request, plan, 64)) == 3  # one for each image, with its four ciphertexts
    # too little memory to keep the weights: images are evaluated in step, two at a time
    memory = 2 * (plan.key_bytes + 2 * plan.ciphertext_bytes)
    server = Server(replace(plan, weight_bytes=memory), circuit, workers=1, memory=memory)
    assert server.together == 2
    outputs = client.decrypt(server.evaluate(request, server.load_keys(keys)))
    np.testing.assert_allclose(outputs, network(inputs[:3]).numpy(), atol=plan.deviation)


def test_check_values_tell_that_colour_images_overflowed():
    network = convnet((2, 2))
    network.fc.weight.mul_(1000)  # the room below must be larger than 1, or SEAL refuses the scale
    inputs = torch.rand(8, 3, 4, 4, dtype=torch.float64)
    options = {"rings": (2048,), "insecure": True, "estimate_time": False}
    plan, circuit = plan_network(network, inputs, packing="grid", **options)
    sizes = network(inputs).abs().amax(1)
    room = float(sizes.max()) / 5  # an overflow needs coefficients beyond it, which are smaller than slots
    scale = 2.0 ** (plan.parameters.prime_bits[0] - 1) / room
    small = replace(plan, output_bound=room, output_scale=scale, check_tolerance=room / 4096)
    secret, evaluation = (keys.to_bytes() for keys in make_keys(small))
    client, server = Client(small, secret), Server(small, circuit, workers=1)
    answer = server.evaluate(client.encrypt(inputs[sizes.argmax()][None].numpy()), server.load_keys(evaluation))
    with pytest.warns(RangeWarning, match="1 of 1 outputs do not match their check values"):
        client.decrypt(answer)


@pytest.mark.parametrize("pool, radius, side", [(1, 1, 4), (2, 1, 4), (1, 0, 3), (2, 2, 12), (2, 1, 2)])
def test_a_convolution_is_recognised(pool, radius, side):
    stencil = Stencil(torch.randn(3, 2, 2 * radius + 1, 2 * radius + 1, dtype=torch.float64), (2, side, side), pool)
    into, out = torch.Size([1, 2, side, side]), torch.Size([1, 3, *stencil.grid])
    found = recognise(stencil, into, out)
    probes = torch.randn(4, 2 * side * side, dtype=torch.float64)
    torch.testing.assert_close(found(probes), stencil(probes))
    torch.testing.assert_close(probes @ stencil.dense().T, stencil(probes))
    torch.testing.assert_close(magnitudes(stencil).dense(), stencil.dense().abs())
    torch.testing.assert_close(squares(stencil).dense(), stencil.dense().square())


def test_other_maps_are_not_recognised():
    shape = torch.Size([1, 2, 4, 4])
    matrix = torch.randn(32, 32, dtype=torch.float64)
    assert recognise(lambda x: x @ matrix, shape, shape) is None
    assert recognise(lambda x: x.roll(4, 1), shape, shape) is None  # wraps around
    assert recognise(lambda x: x[:, :4], shape, torch.Size([1, 4])) is None


def test_other_networks_are_refused():
    dense = compile_network(CCP(16, 2, rank=3, order=2), torch.zeros(1, 16))
    with pytest.raises(PlanError, match="a factor of product 1 is none"):
        choose_grid(dense, 512)
    network = convnet((2, 2), 1)
    circuit = compile_network(network, torch.zeros(1, 1, 16, 16, dtype=torch.float64))
    with pytest.raises(PlanError, match="take 1024 of 512 slots: a ring of 2048 would hold them"):
        choose_grid(circuit, 512)


def test_a_stencil_that_does_not_fit_is_refused():
    stencil = Stencil(torch.zeros(1, 2, 3, 3), (2, 4, 4))
    with pytest.raises(ValueError, match="does not fit 3 channels"):
        replace(stencil, image=(3, 4, 4))
    with pytest.raises(ValueError, match="cells of 3 do not divide 4 x 4"):
        replace(stencil, pool=3)


def test_few_rotations_reach_all_steps():
    keys: set[int] = set()
    needed = {8 * row + column for row in (-1, 0, 1) for column in (-1, 0, 1)}
    made = baby_steps(needed, keys, 64)
    assert made.keys() == needed - {0}
    assert all(way.start + way.step == step for step, way in made.items())
    assert len(keys) <= 4
