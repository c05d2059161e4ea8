"""Constants of a network: in the shape of the input, NaN, rounded to its type, of integers, as masks and exponents."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pinets.algebra import ball, bounds, certify, expand, interval_bounds, lipschitz, orders, verify

NAN, INF = math.nan, math.inf
X = torch.tensor([[0.3, 0.8, -0.7, 0.45]])
W = torch.tensor([0.5, -1.0, 2.0, 0.25])
MASK = torch.tensor([True, False, True, True])


class Function(nn.Module):
    """A network that is a function of the input and a buffer w."""

    def __init__(self, function, w=W) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("w", w)

    def forward(self, x):
        return self.function(x, self.w)


def assert_bounded(model, lower, upper):
    """The network in single precision stays within the bounds, at the corners and at points between them."""
    places = torch.rand(50, lower.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = torch.cat([lower, upper, lower + (upper - lower) * places]).float()
    outputs = torch.stack([model(point[None])[0] for point in points]).double()
    for find in (bounds, interval_bounds):
        found = find(model, lower, upper)
        assert ((found.lower <= outputs) & (outputs <= found.upper)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["view_as", "reshape_as", "expand_as"])
def test_constants_in_the_shape_of_the_input(name, dtype):
    model = Function(lambda x, w: x * x * getattr(w, name)(x), W.to(dtype))
    assert certify(model, X).degree == 2
    torch.testing.assert_close(orders(model, X)[2], model(X))
    assert_bounded(model, *ball(X, 0.1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x / NAN,
        lambda x, w: x / (-w.abs()).sqrt(),
        lambda x, w: x / w.sqrt(),  # NaN in one element
        lambda x, w: x**3 + x / w.sqrt(),
        lambda x, w: torch.add(x, x * x, alpha=INF),
        lambda x, w: torch.sub(x, w, alpha=NAN),
        lambda x, w: torch.addcdiv(x, x, w.sqrt()),
        lambda x, w: torch.addcdiv(x, x, w, value=NAN),
        lambda x, w: torch.addcmul(x, x, x, value=NAN),
        lambda x, w: torch.addmm(x, x, torch.eye(4), beta=NAN),
        lambda x, w: torch.baddbmm(x[None], x[None], torch.eye(4)[None], alpha=INF)[0],
        lambda x, w: x.index_add(1, torch.tensor([0]), x[:, :1], alpha=NAN),
        lambda x, w: torch.einsum("bi,i->bi", x, w.sqrt()),
        lambda x, w: F.bilinear(x, x, w.sqrt().expand(2, 4, 4)),
        lambda x, w: x.var(1, correction=NAN),
        lambda x, w: (x * x, w.sqrt()),
        lambda x, w: torch.add(x, x, alpha=1e39),  # infinite in single precision
        lambda x, w: x / 1e39,
    ],
)
def test_what_gives_nan_or_infinity_is_not_certified(function):
    certificate = certify(Function(function), X)
    assert not certificate.polynomial
    assert "nan" in str(certificate).lower()


@pytest.mark.parametrize("rest", [lambda x: 0, lambda x: x**3, lambda x: x**40])
def test_nan_that_no_rule_saw_is_not_certified(monkeypatch, rest):
    """The planted bug: rules let a constant pass that is NaN."""
    monkeypatch.setattr("pinets.algebra.rules.linear.finite", lambda operation, argument: torch.as_tensor(argument))
    certificate = certify(Function(lambda x, w: rest(x) + x / NAN), X)
    assert not certificate.polynomial
    assert "the network gives values that are NaN or infinite" in str(certificate)


@pytest.mark.parametrize(
    ("function", "w", "low"),
    [
        (lambda x, w: x * w, torch.tensor(1e-46, dtype=torch.float64), 1e30),
        (lambda x, w: x * 1e-46, W, 1e30),
        (lambda x, w: torch.add(x * 0, x, alpha=1e-46), W, 1e30),
        (lambda x, w: x.index_add(0, torch.tensor([0]), x * -1, alpha=1 + 1e-46), W, 1e30),
        (lambda x, w: torch.addcdiv(x * 0, x, w, value=1e20), torch.tensor([1e20]), 1e19),
        (lambda x, w: torch.addcdiv(x * 0, x, w, value=1e-30), torch.tensor([1e-30]), 1e-15),
        (lambda x, w: torch.ldexp(x, w), torch.tensor(-200), 1e30),
        (lambda x, w: x.clone().copy_(w.expand(1, 1)) + x * 0, torch.tensor(0.1, dtype=torch.float64), 1.0),
    ],
)
def test_constants_are_rounded_as_the_network_rounds_them(function, w, low):
    lower = torch.tensor([[low]], dtype=torch.float64)
    assert_bounded(Function(function, w), lower, 2 * lower)


@pytest.mark.parametrize(("value", "reason"), [(1e39, "NaN or infinite"), (1e-46, "divides by zero")])
def test_a_scalar_buffer_that_single_precision_cannot_hold_is_no_divisor(value, reason):
    certificate = certify(Function(lambda x, w: x / w, torch.tensor(value, dtype=torch.float64)), X)
    assert reason in str(certificate)


def test_a_factor_that_underflows_is_zero():
    assert certify(Function(lambda x, w: x * 1e-46), X).degree == 0
    assert certify(Function(lambda x, w: x * 1e-46), X.double()).degree == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x * x * w.float(),
        lambda x, w: x * x * torch.arange(4).float(),
        lambda x, w: x @ F.one_hot(torch.tensor([1, 2, 3, 0]), 4).float() * x,
        lambda x, w: x @ torch.eye(4) * x,
        lambda x, w: x * x * (w.sum(dtype=torch.float32) / 4),
        lambda x, w: x * x * 2.0 ** torch.arange(4),
        lambda x, w: x * x * w.float().mean(),
    ],
)
def test_constants_made_of_integers_and_masks(function):
    model = Function(function, MASK)
    assert certify(model, X).degree == 2
    assert_bounded(model, *ball(X, 0.1))
    slope = torch.autograd.functional.jacobian(model, X)[0, :, 0].abs().sum(1)
    assert (lipschitz(model, *ball(X, 0.1))[0] >= slope).all()
    label = int(model(X).argmax())
    assert verify(model, *ball(X, 0.001), [label])[0].status == "proven"


@pytest.mark.parametrize(
    ("function", "degree"),
    [
        (lambda x, w: x[:, w] ** 2, 2),
        (lambda x, w: x[:, w].reshape(1, -1, 1) * x[:, w].shape[1], 1),
        (lambda x, w: torch.masked_select(x, w)[None] ** 2, 2),
        (lambda x, w: x.repeat_interleave(torch.tensor([1, 0, 2, 1]), 1) ** 2, 2),
        (lambda x, w: x ** torch.tensor([1.0, 2.0, 3.0, 0.0]), 3),
        (lambda x, w: x @ torch.linalg.inv(torch.diag(w + 1.0)) * x, 2),
    ],
)
def test_masks_exponents_and_inverses(function, degree):
    model = Function(function, MASK)
    assert certify(model, X).degree == degree
    torch.testing.assert_close(expand(model, X)(X), model(X).flatten(1).double())
    assert_bounded(model, *ball(X, 0.1))


def test_a_tensor_filled_with_a_sum():
    model = Function(lambda x, w: torch.full_like(x, x.sum()) * x)
    assert certify(model, X).degree == 2
    torch.testing.assert_close(orders(model, X)[2], X.sum() * X)


class TrainsItsNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm.train()(x)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Function(lambda x, w: x * x if w else x, torch.tensor(True)), "depends on values of the input or of a buffer"),
        (Function(lambda x, w: torch.view_as_real(x.to(torch.complex64))), "computes with complex numbers"),
        (Function(lambda x, w: torch.full_like(x, 2 * x.sum().item())), "mul is not known to be polynomial"),
        (torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))), "Exporting a ScriptModule"),
    ],
)
def test_what_is_not_understood_is_said_to_be_so(model, reason):
    certificate = certify(model, X)
    assert str(certificate).startswith("not known to be a polynomial")
    assert reason in str(certificate)


def test_a_norm_that_its_network_trains():
    assert "divides by the deviation of its own input" in str(certify(TrainsItsNorm(), X.repeat(2, 1)))
