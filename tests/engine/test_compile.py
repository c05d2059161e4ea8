"""Compiled networks train, resume and are saved as others are. The backends here generate no code, which takes long."""

from __future__ import annotations

import operator
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pinets.engine import NonFiniteError, Plan, RunFolder, compile_networks, fit, make_accelerator
from pinets.models.spiral import NORMS, SpiralPolynomial
from pinets.operators import SpiralConv

PLAN = Plan(steps=6, steps_per_epoch=3, checkpoint_every=2)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


def train(toy, folder, plan=PLAN, *, backend="eager", **options):
    accelerator, run = toy.make_accelerator(), RunFolder(folder)
    if not run.exists:
        run.start({"kind": "toy"}, processes=1)
    task = toy.classifier(accelerator, **options)
    if backend is not None:
        compile_networks(task, accelerator, backend=backend)
    fit(task, plan, run, accelerator)
    return task


def saved(folder, step=6):
    return load_file(folder / "checkpoints" / f"step-{step:08d}" / "shared.safetensors")


def test_checkpoints_of_compiled_networks_are_those_of_others(toy, tmp_path):
    train(toy, tmp_path / "compiled", dropout=0.0)
    train(toy, tmp_path / "eager", dropout=0.0, backend=None)
    compiled, eager = saved(tmp_path / "compiled"), saved(tmp_path / "eager")
    assert compiled.keys() == eager.keys()
    for name, tensor in eager.items():
        torch.testing.assert_close(compiled[name], tensor, rtol=1e-4, atol=1e-5)


def test_compiled_networks_really_are_compiled(toy, accelerator):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    task = toy.classifier(accelerator)
    compile_networks(task, accelerator, backend=backend)
    task.network(torch.randn(2, 2, 4, 4))
    assert len(graphs) == 1


def test_code_is_generated_for_constant_shapes(toy, accelerator):
    """torch would turn to code for any shape, whose gradients it gets wrong for some networks."""
    sizes = []

    def backend(graph, inputs):
        sizes.append({type(size) for value in inputs if isinstance(value, torch.Tensor) for size in value.shape})
        return graph.forward

    task = toy.classifier(accelerator)
    compile_networks(task, accelerator, backend=backend)
    for count in (2, 3, 4):
        with torch.no_grad():
            task.network(torch.randn(count, 2, 4, 4))
    assert sizes == [{int}] * 3


def test_a_compiled_run_resumes_bit_for_bit(toy, tmp_path):
    train(toy, tmp_path / "whole")
    train(toy, tmp_path / "parts", Plan(steps=4, steps_per_epoch=3, checkpoint_every=2))
    train(toy, tmp_path / "parts")
    whole, parts = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    assert all(torch.equal(parts[name], tensor) for name, tensor in whole.items())


def test_the_layer_that_breaks_is_found_in_a_compiled_network(toy, accelerator, tmp_path):
    run = RunFolder(tmp_path)
    run.start({"kind": "toy"}, processes=1)
    task = toy.classifier(accelerator)
    task.network[2] = toy.Break(at=2)
    compile_networks(task, accelerator, backend="eager")
    with pytest.raises(NonFiniteError, match=r"step 2: .*the first layer to give it is model\.2 \(Break\)"):
        fit(task, PLAN, run, accelerator)


class WrongProduct(torch.autograd.Function):
    """x * y, with a gradient of zero for y."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y, torch.zeros_like(y)


def wrong_product(x, y):
    return WrongProduct.apply(x, y)


class Product(nn.Module):
    """Multiplies what two layers make of the input; the norm keeps statistics."""

    def __init__(self):
        super().__init__()
        self.gate, self.body, self.norm = nn.Linear(4, 3), nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.gate(x) * self.body(x))


def compile_wrongly(graph, inputs):
    """A backend whose gradients are wrong."""
    for node in graph.graph.nodes:
        if node.target in (torch.mul, operator.mul):
            node.target = wrong_product
    graph.recompile()
    return graph.forward


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_wrong_code_is_not_trained_with(toy, precision):
    accelerator = make_accelerator(precision)
    torch.manual_seed(0)
    network = accelerator.prepare(Product())
    task = SimpleNamespace(networks={"model": network})
    x = torch.randn(8, 4)
    before, drawn = {name: value.clone() for name, value in network.state_dict().items()}, torch.get_rng_state()
    network(x).square().sum().backward()
    right = {name: value.grad.clone() for name, value in network.named_parameters()}
    after = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(before)
    network.zero_grad()

    compile_networks(task, accelerator, backend=compile_wrongly)
    with pytest.warns(UserWarning, match=r"wrong gradients for model, .* that of body\.weight is off by 100 %"):
        output = network(x)
    output.square().sum().backward()
    assert all(torch.equal(value.grad, right[name]) for name, value in network.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.slow  # generates C++ code and compiles it
@pytest.mark.filterwarnings("ignore:torch.compile computes wrong gradients")
def test_spiral_polynomials_with_elu_have_the_gradients_of_others(toy):
    """torch 2.13.0 compiles them wrongly."""
    torch.manual_seed(0)
    spirals = torch.randint(0, 213, (213, 9))
    polynomial = SpiralPolynomial(16, 16, spirals, order=2, norm=NORMS["instance"], skip=False)
    nn.init.ones_(polynomial.steps[0].norm.weight)  # which starts at zero
    network = nn.Sequential(SpiralConv(3, 16, spirals), polynomial, nn.ELU(), SpiralConv(16, 3, spirals))
    shapes = torch.randn(16, 213, 3)
    network(shapes).abs().mean().backward()
    right = [value.grad.clone() for value in network.parameters()]
    network.zero_grad()
    compile_networks(SimpleNamespace(networks={"model": network}), toy.make_accelerator())
    network(shapes).abs().mean().backward()
    for value, expected in zip(network.parameters(), right, strict=True):
        torch.testing.assert_close(value.grad, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.slow  # generates C++ code and compiles it
def test_generated_code_trains_alike(toy, tmp_path):
    train(toy, tmp_path / "compiled", dropout=0.0, backend="inductor")
    train(toy, tmp_path / "eager", dropout=0.0, backend=None)
    compiled, eager = saved(tmp_path / "compiled"), saved(tmp_path / "eager")
    assert compiled.keys() == eager.keys()
    for name, tensor in eager.items():
        torch.testing.assert_close(compiled[name], tensor, rtol=1e-3, atol=1e-4)
