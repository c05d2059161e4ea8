import itertools
import math
from functools import partial

import pytest
import sympy
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum, certify, expand, orders
from pinets.algebra import NotPolynomialError

MODELS = [CCP, NCP, NCPSkip]


def make(model: type, order: int, features: int = 4) -> nn.Module:
    torch.manual_seed(order)
    return model(features, 3, rank=5, order=order, dtype=torch.float64)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_coefficients_are_derivatives_at_zero(model, order):
    """The symmetric W^[n] of a polynomial is its n-th derivative at zero over n!."""
    layer = make(model, order)
    derivative, zero = layer, torch.zeros(4, dtype=torch.float64)
    expansion = expand(layer)
    for n in range(order + 1):
        expected = derivative(zero) / math.factorial(n)
        torch.testing.assert_close(expansion.coefficients[n], expected.detach(), rtol=0, atol=1e-10)
        derivative = torch.func.jacfwd(derivative)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_expansion_is_the_same_function_and_symmetric(model, order):
    layer = make(model, order)
    expansion = expand(layer)
    z = torch.randn(7, 4, dtype=torch.float64)
    torch.testing.assert_close(expansion(z), layer(z).detach(), rtol=1e-10, atol=1e-10)
    top = expansion.coefficients[order]
    for axes in itertools.permutations(range(1, order + 1)):
        torch.testing.assert_close(top.permute(0, *axes), top, rtol=0, atol=1e-14)


def test_products_and_convolutions():
    torch.manual_seed(0)
    product = nn.Sequential(CCP(3, 4, rank=5, order=2), NCP(4, 2, rank=3, order=2)).double()
    z = torch.randn(6, 3, dtype=torch.float64)
    torch.testing.assert_close(expand(product)(z), product(z).detach())
    network = nn.Sequential(
        CCP(1, 2, rank=2, order=2, op=lambda *a, **k: nn.Conv1d(*a, kernel_size=3, padding=1, **k)),
        nn.BatchNorm1d(2),
        nn.Flatten(),
        PowerSum(2),
    ).double()
    network.eval()
    x = torch.randn(6, 1, 4, dtype=torch.float64)
    expansion = expand(network, x)
    assert expansion.degree == 4
    assert expansion.coefficients[2].shape == (8, 4, 4)
    torch.testing.assert_close(expansion(x), network(x).detach())


def test_sympy_and_numpy_and_latex():
    layer = make(NCP, 3, features=2)
    expansion = expand(layer)
    a, b = sympy.symbols("a b")
    values = {a: 0.3, b: -1.2}
    expected = layer(torch.tensor([[0.3, -1.2]], dtype=torch.float64))[0].tolist()
    found = [float(polynomial.subs(values)) for polynomial in expansion.to_sympy([a, b])]
    assert found == pytest.approx(expected, rel=1e-10)
    assert [array.shape for array in expansion.to_numpy()] == [(3,), (3, 2), (3, 2, 2), (3, 2, 2, 2)]

    class Known(nn.Module):
        def forward(self, z):
            x, y = z[:, :1], z[:, 1:]
            return 1 + 2 * x * x * y - y

    assert expand(Known(), torch.zeros(1, 2)).latex() == "1 + 2 z_{0}^{2} z_{1} - z_{1}"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [2, 3])
def test_largest_monomials_without_the_dense_tensor(model, order):
    layer = make(model, order, features=6)
    dense = expand(layer)
    searched = expand(layer, top=30, memory=4 * 8 * 6 ** (order - 1) * 5)  # the states fit, the last product does not
    with pytest.raises(ValueError, match="searched, not kept"):
        searched.coefficients[order]
    assert_same(searched.top(30), dense.top(30))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [4, 5])
def test_largest_monomials_of_higher_degree_without_the_dense_tensor(model, order):
    layer = make(model, order)
    dense = expand(layer)
    searched = expand(layer, top=40, memory=4 * 8 * 4 ** (order - 1) * 5)
    with pytest.raises(ValueError, match="searched, not kept"):
        searched.coefficients[order]
    assert_same(searched.top(40), dense.top(40))


@pytest.mark.parametrize("features", [7, 9])
def test_largest_monomials_of_degree_4_from_the_factors_alone(features):
    """With memory for the linear forms only, down to monomials with repeated indices."""
    layer = make(CCP, 4, features=features)
    with torch.no_grad():
        layer.start.weight *= 30  # the terms of degree 4 are among the largest
        for step in layer.steps:
            step.gate.weight *= 30
    searched = expand(layer, top=50, memory=4 * 8 * 3 * features**3)
    with pytest.raises(ValueError, match="searched, not kept"):
        searched.coefficients[4]
    assert_same(searched.top(50), expand(layer).top(50))
    assert any(len(set(monomial.indices)) < 4 == len(monomial.indices) for monomial in searched.top(50))


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a.output, a.indices) == (b.output, b.indices)
        assert a.coefficient == pytest.approx(b.coefficient, rel=1e-9)


def test_largest_monomials_are_those_of_the_polynomial_multiplied_out():
    expansion = expand(make(CCP, 3, features=3))
    z = sympy.symbols("z0:3")
    everything = []
    for output, polynomial in enumerate(expansion.to_sympy(list(z))):
        for powers, coefficient in sympy.Poly(polynomial, *z).terms():
            indices = tuple(index for index, power in enumerate(powers) for _ in range(power))
            if indices:
                everything.append((abs(float(coefficient)), output, indices))
    expected = [(output, indices) for _, output, indices in sorted(everything, reverse=True)[:10]]
    assert [(m.output, m.indices) for m in expansion.top(10)] == expected


def test_what_cannot_be_exact_or_does_not_fit_is_refused():
    with pytest.raises(NotPolynomialError, match="ReLU"):
        expand(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with pytest.raises(ValueError, match=r"481,890,304 coefficients of degree 3 .* \(top, --top\)"):
        expand(CCP(784, 1, rank=2, order=3))
    with pytest.raises(ValueError, match=r"monomials of degree 5 in 9 inputs cannot be searched within the memory"):
        expand(CCP(9, 1, rank=2, order=5), top=3, memory=4 * 8 * 9**3 * 2)
    with pytest.raises(ValueError, match="not a sum of few products of linear forms"):
        expand(NCP(9, 1, rank=9, order=4), top=3, memory=4 * 8 * 9**3)
    with pytest.raises(ValueError, match="give an example"):
        expand(PowerSum(2))
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        expand(make(CCP, 2)).top(4, output=3)
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        expand(make(CCP, 2), top=4).top(4, output=3)
    with pytest.raises(ValueError, match="k must be at least 1, got -1"):
        expand(make(CCP, 2)).top(-1)
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        expand(make(CCP, 2), top=0)
    with pytest.raises(ValueError, match="top must be at least 1, got -1"):
        expand(make(CCP, 2)).latex(top=-1)
    for ask in (expand, certify, partial(orders, z=torch.zeros(1, 2))):
        with pytest.raises(TypeError, match=r"the network must be an nn\.Module, got function"):
            ask(lambda z: z)


def test_a_network_with_two_outputs_is_refused():
    class Two(nn.Module):
        def forward(self, x):
            return x * x, x

    with pytest.raises(ValueError, match="one output tensor can be expanded, this one has 2"):
        expand(Two(), torch.zeros(1, 2))


@pytest.mark.parametrize("model", MODELS)
def test_64_inputs_of_order_4(model):
    """8.1 million monomials over ten outputs."""
    layer = model(64, 10, rank=4, order=4)
    (first, *_) = expand(layer, top=3).top(3)
    variables = torch.zeros(1, 64, dtype=torch.float64)
    variables[0, list(first.indices)] = 1.0
    ones = orders(layer.double(), variables)[len(first.indices), 0, first.output]
    assert len(set(first.indices)) > 1 or ones.item() == pytest.approx(first.coefficient, rel=1e-6)


@pytest.mark.slow
def test_784_inputs_of_order_4_within_2_gb_and_a_minute():
    import resource
    import time

    start = time.perf_counter()
    assert len(expand(CCP(784, 10, rank=64, order=4), top=5).top(5)) == 5
    assert time.perf_counter() - start < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2.4e9


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_784_inputs_of_order_3_within_2_gb_and_a_minute(model):
    import resource
    import time

    start = time.perf_counter()
    found = expand(model(784, 10, rank=64, order=3), top=100).top(100)
    assert len(found) == 100
    assert time.perf_counter() - start < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2.4e9  # torch itself takes 0.4


def test_the_largest_are_found_wherever_the_whole_fits():
    layer = NCP(6, 2, rank=400, order=4)
    memory = 4 * 8 * (6**4 * 400 - 1)  # enough for the coefficients, not for the last state's
    assert_same(expand(layer, memory=memory).top(5), expand(layer, top=5, memory=memory).top(5))


class Squared(nn.Module):
    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(3, 3, 2)

    def forward(self, x):
        return self.form(x, x)


def test_a_bilinear_layer():
    model = Squared()
    expected = (model.form.weight + model.form.weight.mT).double() / 2
    torch.testing.assert_close(expand(model, torch.zeros(1, 3)).coefficients[2], expected.detach())


@pytest.mark.parametrize("mode, size", [("nearest", 82), ("nearest-exact", 41), ("nearest", 5)])
def test_nearest_pixels_are_those_of_the_networks_own_precision(mode, size):
    model, x = nn.Upsample(size=size, mode=mode), torch.randn(1, 1, 4)
    torch.testing.assert_close(expand(model, x)(x), model(x).flatten(1).double(), rtol=0, atol=0)


def test_rows_that_depend_on_each_other_have_no_expansion():
    class Centred(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    with pytest.raises(ValueError, match="depends on the other rows"):
        expand(Centred(), torch.zeros(2, 3))


@pytest.mark.parametrize("shape", [(3,), (2, 1), (2, 4), ()])
def test_an_expansion_takes_rows_of_its_width_alone(shape):
    expansion = expand(CCP(3, 2, rank=4, order=2))
    with pytest.raises(ValueError, match="3 numbers a row"):
        expansion(torch.randn(shape))
    assert expansion(torch.randn(0, 3)).shape == (0, 2)


def test_monomials_print_as_a_table():
    assert str(expand(PowerSum(2), torch.zeros(1, 1)).top(2)) == (
        "output  coefficient  monomial\n     0           +1        z0\n     0           +1      z0^2"
    )
    assert repr(expand(PowerSum(2), torch.zeros(1, 1)).top(2)[1]) == "output 0: +1 z0^2"


def test_what_is_not_there_or_not_shown():
    assert [str(monomial) for monomial in expand(PowerSum(1), torch.zeros(1, 1)).top(10)] == ["+1 z0"]
    layer = make(CCP, 2)
    assert expand(layer).latex(top=2).endswith(r" + \cdots")
    assert expand(layer, top=2).latex().endswith(r"\cdots")
    assert "cdots" not in expand(layer).latex(top=1000)
