from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pinets import CCP, NCP
from pinets.algebra import certify
from pinets.encrypted import NotCompilableError, compile_network


def test_a_circuit_computes_what_the_network_does(compiled):
    network, circuit, shape = compiled
    inputs = torch.randn(4, *shape, dtype=torch.float64)
    torch.testing.assert_close(circuit(inputs.flatten(1)), network(inputs).flatten(1), rtol=1e-6, atol=1e-9)
    assert circuit.degree == certify(network, inputs[:1]).bound


@pytest.mark.parametrize("order", [2, 3, 4, 5, 8, 9, 16])
def test_the_depth_of_ccp_grows_with_the_logarithm(order):
    circuit = compile_network(CCP(4, 2, rank=3, order=order), torch.zeros(1, 4))
    assert circuit.depth == 2 + math.ceil(math.log2(order))
    assert [len(product.factors) for product in circuit.products] == [order]


@pytest.mark.parametrize("order", range(2, 6))
def test_the_depth_of_ncp(order):
    assert compile_network(NCP(4, 2, rank=3, order=order), torch.zeros(1, 4)).depth == 2 * order - 1


def test_a_product_of_polynomials_shares_the_map_between_them():
    product = nn.Sequential(CCP(4, 4, rank=3, order=4), CCP(4, 2, rank=3, order=2))
    assert compile_network(product, torch.zeros(1, 4)).depth == (1 + 2) + (1 + 1) + 1


class Quotient(nn.Module):
    def forward(self, x):
        return x / x.sum()


class Attention(nn.Module):
    def forward(self, x):
        return x @ x.transpose(-1, -2)


@pytest.mark.parametrize(
    "network, message",
    [
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), r"1 \(ReLU\): relu .*replace it with pinets.PowerSum"),
        (nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2)), "max_pool.*replace it with average pooling"),
        (nn.LayerNorm(4), "layer_norm.*replace it with batch norm"),
        (
            nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ReLU()),
            r"0 \(ReLU\): relu is piecewise linear \(also in 2\); replace",
        ),
        (nn.Softmax(1), "softmax divides exponentials; replace it with the scores themselves"),
        (Quotient(), "div divides by a function of the input; replace it with sums and products"),
        (nn.Sequential(nn.Unflatten(1, (2, 2)), Attention()), "only element-wise products"),
    ],
)
def test_other_networks_are_refused_by_the_operation(network, message):
    with pytest.raises(NotCompilableError, match=message):
        compile_network(network, torch.zeros(1, 4))


class ScaledByItsMean(nn.Module):
    def forward(self, x):
        return x * x.mean() + x.sum()


def test_values_without_axes():
    network, inputs = ScaledByItsMean(), torch.randn(3, 4, dtype=torch.float64)
    circuit = compile_network(network, inputs[:1])
    for one in inputs.split(1):
        torch.testing.assert_close(circuit(one), network(one))


class Several(nn.Module):
    def forward(self, x):
        return x, x * x


def test_outputs_that_cannot_be():
    with pytest.raises(NotCompilableError, match="must give one tensor, got 2"):
        compile_network(Several(), torch.zeros(1, 4))
    zero = nn.Linear(4, 2)
    nn.init.zeros_(zero.weight)
    with pytest.raises(NotCompilableError, match="does not depend on the input"):
        compile_network(zero, torch.zeros(1, 4))


def test_what_is_too_large_is_refused_before_it_is_made():
    with pytest.raises(NotCompilableError, match="is too large for encrypted inference"):
        compile_network(nn.Conv2d(3, 64, 3, padding=1), torch.zeros(1, 3, 32, 32))


def test_the_network_is_left_as_it_was():
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    compile_network(network, torch.zeros(1, 4))
    assert network.training
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
