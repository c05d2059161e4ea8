"""One traced network answers every question, and leaves the network it was made from alone."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from pinets import CCP, NCP
from pinets.algebra import (
    NotPolynomialError,
    TraceError,
    ball,
    bounds,
    certify,
    expand,
    interactions,
    interval_bounds,
    lipschitz,
    margins,
    orders,
    trace,
)
from pinets.encrypted.compile import compile_network
from tests.algebra.networks import Function


def test_a_traced_network_answers_as_the_module_does(monkeypatch):
    model, z = NCP(3, 2, rank=4, order=3), 2 * torch.rand(1, 3) - 1
    box = ball(z, 0.1)
    questions = {
        "certify": lambda network: certify(network, z),
        "orders": lambda network: orders(network, z),
        "expand": lambda network: expand(network, z).coefficients[3],
        "interactions": lambda network: interactions(network, z).total,
        "bounds": lambda network: bounds(network, *box).lower,
        "interval_bounds": lambda network: interval_bounds(network, *box).lower,
        "margins": lambda network: margins(network, *box, torch.tensor([1])),
        "lipschitz": lambda network: lipschitz(network, *box),
        "compile": lambda network: compile_network(network, z).output.constant,
    }
    expected = {name: ask(model) for name, ask in questions.items()}
    traced = trace(model, z)
    assert traced.certificate == expected["certify"]
    with monkeypatch.context() as patch:
        patch.setattr(torch.export, "export", lambda *_: pytest.fail("traced again"))
        patch.setattr("pinets.algebra._certify.certificate_of", lambda _: pytest.fail("certified again"))
        found = {name: ask(traced) for name, ask in questions.items()}
    assert found.pop("certify") == expected.pop("certify")
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], msg=name)


def test_inputs_of_another_shape_are_refused():
    traced = trace(CCP(3, 2, rank=4, order=2), torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"traced for inputs of shape \[\(1, 3\)\], got \[\(5, 3\)\]"):
        orders(traced, torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"traced with a batch of one row, this one was traced with shape \(5, 3\)"):
        expand(trace(CCP(3, 2, rank=4, order=2), torch.zeros(5, 3)))


def test_a_traced_network_keeps_its_weights():
    model, z = CCP(3, 2, rank=4, order=2), torch.randn(1, 3)
    traced, before = trace(model, z), orders(model, z)
    nn.init.zeros_(model.head.weight)
    torch.testing.assert_close(orders(traced, z), before)


def test_what_cannot_be_traced_is_located():
    network = nn.Sequential(nn.Linear(3, 3), Function(lambda x: x if x.sum() > 0 else -x))
    with pytest.raises(TraceError) as caught:
        trace(network, torch.zeros(1, 3))
    assert [violation.path for violation in caught.value.violations] == ["1"]
    with pytest.raises(NotPolynomialError, match="control flow"):
        orders(network, torch.zeros(1, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(0),
        lambda x: x + 0.005 * x.mean(0, keepdim=True),
        lambda x: x + 1e-9 * x.sum(0),
        lambda x: x + 0.005 * x.detach().mean(0, keepdim=True),
        lambda x: x * x[:1],
        lambda x: x.mean(0, keepdim=True),
        lambda x: x.flip(0),
    ],
)
def test_rows_that_depend_on_each_other_are_noticed(function):
    assert trace(Function(function), torch.zeros(1, 3)).mixes_rows


@pytest.mark.parametrize(
    "model",
    [
        CCP(3, 2, rank=4, order=3),
        nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.Flatten()),
        Function(lambda x: x.float().double() ** 2),
        Function(lambda x: x.reshape(1, 3)),
        Function(lambda x: 1e30 * x.reshape(-1, 3, 1) @ x.reshape(-1, 1, 3)),
        Function(torch.ones_like),
    ],
)
def test_rows_that_do_not_are_left_in_peace(model):
    assert not trace(model, torch.zeros(1, 3)).mixes_rows


class Counting(nn.Module):
    """Counts its calls in an integer buffer, in a floating-point one and in a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("total", torch.zeros(3, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total += x.detach().sum(0)
        return x * x


def test_the_network_is_left_as_it_was():
    model, z = Counting().train(), torch.ones(1, 3, dtype=torch.float64)
    certify(model, z)
    bounds(model, *ball(z, 0.1), precision=torch.float64)
    orders(model, z)
    expand(model, z)
    assert model.calls == 0
    assert not model.total.any()
    assert model.training


def test_a_network_that_cannot_be_copied_is_traced_itself():
    model, z = Counting(), torch.ones(1, 3, dtype=torch.float64)
    model.history = torch.ones(3, requires_grad=True) * 2  # a tensor with a history cannot be copied
    assert certify(model, z).degree == 2
    assert model.calls == 0
    assert model.training


def test_a_network_that_can_be_neither_copied_nor_traced_is_left_as_it_was():
    model, z = nn.Sequential(Counting(), Function(lambda x: x if x.sum() > 0 else -x)), torch.ones(1, 3).double()
    model.history = torch.ones(3, requires_grad=True) * 2
    assert not certify(model, z).polynomial
    assert not model[0].total.any()
    assert model.training


def test_a_network_of_known_operations_is_not_rewritten(monkeypatch):
    """Rewriting operations takes most of the time of tracing, and our own layers have nothing to rewrite."""

    def rewrite(*_):
        raise AssertionError("rewritten")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", rewrite)
    assert certify(CCP(4, 2, rank=3, order=3)).degree == 3


def test_what_writes_into_a_tensor_is_rewritten():
    class InPlace(nn.Module):
        def forward(self, x):
            state = x.clone()
            state[:, 0].mul_(x[:, 1])
            return state

    found = certify(InPlace(), torch.randn(1, 3))
    assert (found.polynomial, found.degree) == (True, 2)


def test_threads_trace_at_the_same_time_and_can_print_afterwards():
    model, z, streams = CCP(4, 2, rank=3, order=3), torch.randn(2, 4), (sys.stdout, sys.stderr)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: certify(model, z).degree, range(12)))
    assert found == [3] * 12
    assert (sys.stdout, sys.stderr) == streams


def test_a_layer_whose_shape_does_not_fit_is_named():
    network = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(7, 2)))
    with pytest.raises(RuntimeError, match=r"^1\.1 \(Linear\): mat1 and mat2 shapes cannot be multiplied"):
        trace(network)
