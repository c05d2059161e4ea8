"""The models against the paper's equations, written out with Khatri-Rao products and dense tensors."""

import itertools
from functools import reduce

import numpy as np
import pytest
import torch
from scipy.linalg import khatri_rao
from torch import nn

from pinets import CCP, NCP, NCPSkip, expand

D, K, OUT, OMEGA = 4, 5, 3, 2
ORDERS = range(1, 6)


@pytest.fixture
def z() -> np.ndarray:
    return np.random.default_rng(0).normal(size=D)


def matrix(parameter: torch.Tensor) -> np.ndarray:
    """The paper's A_n, U_n, S_n from a weight, which holds the transpose."""
    return parameter.detach().numpy().T


def evaluate(model: nn.Module, z: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(z)[None])[0].numpy()


def column(vector: np.ndarray) -> np.ndarray:
    return vector[:, None]


def power(z: np.ndarray, n: int) -> np.ndarray:
    """z ⊙ z ⊙ ... ⊙ z, n times."""
    return reduce(khatri_rao, [column(z)] * n)


def make(model: type, order: int, **options) -> nn.Module:
    torch.manual_seed(order)
    layer = model(D, OUT, rank=K, order=order, dtype=torch.float64, **options)
    nn.init.normal_(layer.head.bias)
    return layer


def test_ccp_is_equation_4(z):
    layer = make(CCP, 3)
    U1, U2, U3 = (matrix(op.weight) for op in (layer.start, layer.steps[0].gate, layer.steps[1].gate))
    C, beta = layer.head.weight.detach().numpy(), layer.head.bias.detach().numpy()
    expected = (
        beta
        + C @ U1.T @ z
        + (C @ khatri_rao(U3, U1).T @ power(z, 2))[:, 0]
        + (C @ khatri_rao(U2, U1).T @ power(z, 2))[:, 0]
        + (C @ khatri_rao(khatri_rao(U3, U2), U1).T @ power(z, 3))[:, 0]
    )
    np.testing.assert_allclose(evaluate(layer, z), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_ccp_of_any_order_is_the_sum_over_subsets_of_factors(z, order):
    layer = make(CCP, order)
    U = [matrix(layer.start.weight)] + [matrix(step.gate.weight) for step in layer.steps]
    C, beta = layer.head.weight.detach().numpy(), layer.head.bias.detach().numpy()
    expected = beta.copy()
    for size in range(order):
        for chosen in itertools.combinations(range(1, order), size):
            factors = [U[n] for n in reversed(chosen)] + [U[0]]
            expected += (C @ reduce(khatri_rao, factors).T @ power(z, size + 1))[:, 0]
    np.testing.assert_allclose(evaluate(layer, z), expected, rtol=0, atol=1e-10)


def ncp_parameters(layer: NCP) -> dict[str, list[np.ndarray]]:
    """The factors A_n, S_n, B_n, b_n of a layer with factored biases; B_1^T b_1, folded into A_1, is one."""
    bodies = [step.body for step in layer.steps]
    factors = [body.parametrizations.bias for body in bodies]
    return {
        "A": [matrix(layer.start.weight)] + [matrix(step.gate.weight) for step in layer.steps],
        "S": [np.empty(0)] + [matrix(body.weight) for body in bodies],
        "B": [np.full((OMEGA, K), 1 / OMEGA)] + [factor[0].weight.detach().numpy() for factor in factors],
        "b": [np.ones(OMEGA)] + [factor.original.detach().numpy() for factor in factors],
    }


def test_ncp_is_equation_7(z):
    layer = make(NCP, 3, bias_size=OMEGA)
    p = ncp_parameters(layer)
    (A1, A2, A3), (_, S2, S3), (B1, B2, B3), (b1, b2, b3) = p["A"], p["S"], p["B"], p["b"]
    C, beta = layer.head.weight.detach().numpy(), layer.head.bias.detach().numpy()
    zz, zzz = power(z, 2), power(z, 3)
    expected = (
        beta
        + (C @ khatri_rao(A3, B3).T @ khatri_rao(column(z), column(b3)))[:, 0]
        + (C @ khatri_rao(A3, khatri_rao(A2, B2) @ S3).T @ khatri_rao(zz, column(b2)))[:, 0]
        + (C @ khatri_rao(A3, khatri_rao(A2, khatri_rao(A1, B1) @ S2) @ S3).T @ khatri_rao(zzz, column(b1)))[:, 0]
    )
    np.testing.assert_allclose(evaluate(layer, z), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_ncp_of_any_order_is_the_sum_over_where_the_nesting_starts(z, order):
    layer = make(NCP, order, bias_size=OMEGA)
    p = ncp_parameters(layer)
    C, beta = layer.head.weight.detach().numpy(), layer.head.bias.detach().numpy()
    expected = beta.copy()
    for first in range(order):  # W^[n] starts at level N + 1 - n
        nested = khatri_rao(p["A"][first], p["B"][first])
        for level in range(first + 1, order):
            nested = khatri_rao(p["A"][level], nested @ p["S"][level])
        argument = khatri_rao(power(z, order - first), column(p["b"][first]))
        expected += (C @ nested.T @ argument)[:, 0]
    np.testing.assert_allclose(evaluate(layer, z), expected, rtol=0, atol=1e-10)


def coefficient_tensors(layer: NCP) -> list[np.ndarray]:
    """W^[0..N] of NCP and NCP-Skip as dense tensors: a sum over where each path starts and which levels it skips."""
    order = layer.order
    A = [matrix(layer.start.weight)] + [matrix(step.gate.weight) for step in layer.steps]
    S = [np.empty(0)] + [matrix(step.body.weight) for step in layer.steps]
    bias = [np.ones(K)] + [step.body.bias.detach().numpy() for step in layer.steps]
    V = [step.carry["state"].weight.detach().numpy() if step.carry else np.zeros((K, K)) for step in layer.steps]
    C, beta = layer.head.weight.detach().numpy(), layer.head.bias.detach().numpy()
    tensors = [beta] + [np.zeros((OUT, *(D,) * n)) for n in range(1, order + 1)]
    for first in range(order):
        for skipped in itertools.product((False, True), repeat=order - 1 - first):
            T = np.einsum("ir,r->ri", A[first], bias[first])  # (k, d)
            for level, skip in enumerate(skipped, start=first + 1):
                if skip:
                    T = np.einsum("rs,s...->r...", V[level - 1], T)
                else:
                    T = np.einsum("ir,sr,s...->ri...", A[level], S[level], T)
            tensors[T.ndim - 1] += np.einsum("or,r...->o...", C, T)
    return tensors


@pytest.mark.parametrize("model", [NCP, NCPSkip])
@pytest.mark.parametrize("order", ORDERS)
def test_nested_models_have_these_coefficient_tensors(z, model, order):
    layer = make(model, order)
    tensors = coefficient_tensors(layer)
    expected = tensors[0].copy()
    for n, W in enumerate(tensors[1:], start=1):
        for _ in range(n):
            W = W @ z
        expected += W
    np.testing.assert_allclose(evaluate(layer, z), expected, rtol=0, atol=1e-10)

    found = expand(layer).to_numpy()
    for n, W in enumerate(tensors):
        orders = list(itertools.permutations(range(1, n + 1)))
        symmetric = sum(np.transpose(W, (0, *axes)) for axes in orders) / len(orders)
        np.testing.assert_allclose(found[n], symmetric, rtol=0, atol=1e-10)


def test_parameters_have_the_names_of_the_docs():
    layer = NCPSkip(D, OUT, rank=K, order=3)
    assert set(layer.state_dict()) == {
        "start.weight",
        *(
            f"steps.{i}.{slot}"
            for i in (0, 1)
            for slot in ("gate.weight", "body.weight", "body.bias", "carry.state.weight")
        ),
        "head.weight",
        "head.bias",
    }
    assert layer.start.weight.shape == (K, D)
    assert layer.steps[0].carry["state"].weight.shape == (K, K)
    assert layer.head.weight.shape == (OUT, K)


@pytest.mark.parametrize(
    ("model", "count"),
    [(CCP, 4 * D * K + OUT * K + OUT), (NCP, 4 * D * K + 3 * (K * K + K) + OUT * K + OUT)],
)
def test_parameter_counts(model, count):
    assert sum(p.numel() for p in model(D, OUT, rank=K, order=4).parameters()) == count


def test_str_shows_the_equation():
    assert "4, 3, rank=5, order=2: x_n = (A_n z) * (S_n x + b_n) + V_n x" in str(NCPSkip(D, OUT, rank=K, order=2))
