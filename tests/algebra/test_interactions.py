import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pinets import CCP, NCP, interactions
from pinets.algebra import Normal, Uniform


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.function(*z.unbind(1))[:, None]


def test_polynomial_of_ishigami_type():
    """x + a y^2 + b x w^4 with uniform inputs on [-pi, pi]; its parts of the variance follow from moments by hand."""
    a, b, pi = 7.0, 0.1, math.pi
    found = interactions(
        Function(lambda x, y, w: x + a * y**2 + b * x * w**4),
        torch.zeros(1, 3, dtype=torch.float64),
        marginals=Uniform(-pi, pi),
    )
    x2, w4, w8 = pi**2 / 3, pi**4 / 5, pi**8 / 9
    parts = {
        (0,): x2 * (1 + b * w4) ** 2,
        (1,): a**2 * (pi**4 / 5 - (pi**2 / 3) ** 2),
        (0, 2): b**2 * x2 * (w8 - w4**2),
    }
    variance = sum(parts.values())
    assert found.variance.item() == pytest.approx(variance, rel=1e-12)
    assert found.mean.item() == pytest.approx(a * pi**2 / 3, rel=1e-12)
    for group in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        assert found.index(*group).item() == pytest.approx(parts.get(group, 0.0) / variance, rel=1e-10, abs=1e-14)
    assert found.total[0].tolist() == pytest.approx(
        [(parts[0,] + parts[0, 2]) / variance, parts[1,] / variance, parts[0, 2] / variance], rel=1e-10
    )


@pytest.mark.parametrize(
    ("marginal", "variance_of_factor"),
    [(Uniform(0.0, 1.0), lambda c: c**2 / 5 * 4), (Normal(0.0, 1.0), lambda c: 18 * c**2)],
)
def test_polynomial_of_sobol_g_type(marginal, variance_of_factor):
    """Prod_i (1 + c_i h(z_i)) with h of mean zero: the part of a group is the product of its factors' variances."""
    c = [0.5, 1.0, 0.2]

    def h(z: torch.Tensor) -> torch.Tensor:
        if isinstance(marginal, Uniform):
            return 3 * (2 * z - 1) ** 2 - 1  # on [0, 1]: mean 0, variance 9/5 - 2 + 1 = 4/5
        return 3 * (z**2 - 1)  # mean 0, variance 9 * 2

    v = [variance_of_factor(value) for value in c]
    product = Function(lambda x, y, w: (1 + c[0] * h(x)) * (1 + c[1] * h(y)) * (1 + c[2] * h(w)))
    found = interactions(product, torch.zeros(1, 3, dtype=torch.float64), marginals=marginal)
    variance = math.prod(1 + value for value in v) - 1
    assert found.variance.item() == pytest.approx(variance, rel=1e-10)
    for group in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        expected = math.prod(v[i] for i in group) / variance
        assert found.index(*group).item() == pytest.approx(expected, rel=1e-9)


def test_marginals_of_both_kinds():
    """x y + y with x uniform on [0, 2] and y normal around 1 with deviation 3, by hand."""
    found = interactions(Function(lambda x, y: x * y + y), torch.zeros(1, 2), marginals=[Uniform(0, 2), Normal(1, 3)])
    # x = 1 + u, y = 1 + 3 v: f = 2 + u + 6 v + 3 u v with Var u = 1/3, Var v = 1
    parts = {(0,): 1 / 3, (1,): 36.0, (0, 1): 3.0}
    assert found.mean.item() == pytest.approx(2.0)
    for group, part in parts.items():
        assert found.index(*group).item() == pytest.approx(part / sum(parts.values()))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), order=st.integers(1, 4), normal=st.booleans())
def test_indices_add_up_and_agree_with_conditional_means(seed, order, normal):
    """First-order indices from their definition, Var E[f | z_i] / Var f, with exact quadrature in every input."""
    torch.manual_seed(seed)
    features = 3
    layer = NCP(features, 2, rank=4, order=order, dtype=torch.float64)
    found = interactions(layer, marginals=Normal(0.5, 0.7) if normal else Uniform(-0.5, 2.0))
    total = sum(found.of_size(size).sum(1) for size in found.supports)
    torch.testing.assert_close(total, torch.ones(2, dtype=torch.float64))

    points, weights = quadrature(normal, 2 * order + 2)
    grid = torch.cartesian_prod(*(points,) * features)
    weight = torch.cartesian_prod(*(weights,) * features).prod(1)
    with torch.no_grad():
        values = layer(grid)
    mean = (weight[:, None] * values).sum(0)
    variance = (weight[:, None] * (values - mean) ** 2).sum(0)
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.variance, variance)
    cube, weight_cube = (t.reshape(*(len(points),) * features, -1) for t in (values, weight))
    for i in range(features):
        others = tuple(axis for axis in range(features) if axis != i)
        conditional = (cube * weight_cube).sum(others) / weights[:, None]
        expected = (weights[:, None] * (conditional - mean) ** 2).sum(0) / variance
        torch.testing.assert_close(found.first[:, i], expected, rtol=1e-7, atol=1e-10)


def quadrature(normal: bool, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    import numpy as np

    if normal:
        points, weights = np.polynomial.hermite_e.hermegauss(count)
        return torch.from_numpy(0.5 + 0.7 * points), torch.from_numpy(weights / weights.sum())
    points, weights = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy(0.75 + 1.25 * points), torch.from_numpy(weights / weights.sum())


def test_strongest_interactions():
    found = interactions(Function(lambda x, y, w: x * y + 3 * y * w), torch.zeros(1, 3), marginals=Normal())
    (first, second) = found.strongest(2)
    assert (first.inputs, second.inputs) == ((1, 2), (0, 1))
    assert first.share == pytest.approx(0.9)


def test_interactions_print_as_a_table():
    found = interactions(Function(lambda x, y, w: x * y + 3 * y * w), torch.zeros(1, 3), marginals=Normal())
    assert str(found) == (
        "the variance of 1 output in 3 inputs, the largest shares first:\n"
        "output    share  inputs\n     0  90.00 %   z1 z2\n     0  10.00 %   z0 z1"
    )
    assert str(found.strongest(1)) == "output    share  inputs\n     0  90.00 %   z1 z2"
    assert repr(found.strongest(1)[0]) == "output 0: 90 % of the variance by z1 z2"
    linear = nn.Linear(3, 2)
    nn.init.zeros_(linear.weight)
    assert str(interactions(linear, torch.zeros(1, 3))) == "the variance of 2 outputs in 3 inputs: none"


def test_bad_marginals():
    layer = CCP(3, 1, rank=2, order=2)
    with pytest.raises(ValueError, match="low < high"):
        Uniform(1.0, 1.0)
    with pytest.raises(ValueError, match="std > 0"):
        Normal(0.0, 0.0)
    with pytest.raises(ValueError, match="3 inputs need one marginal or as many, got 2"):
        interactions(layer, marginals=[Normal(), Normal()])
    with pytest.raises(TypeError, match=r"Uniform.* or Normal"):
        interactions(layer, marginals=["normal"] * 3)  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"Uniform.* or Normal.*; got 'normal'"):
        interactions(layer, marginals="normal")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Uniform.* or Normal.*; got <class"):
        interactions(layer, marginals=Normal)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        interactions(layer).index(3)
    with pytest.raises(ValueError, match="output must be from 0 to 0, got 9"):
        interactions(layer).strongest(1, output=9)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        interactions(layer).strongest(0)


def test_a_constant_has_no_variance():
    linear = nn.Linear(3, 2)
    nn.init.zeros_(linear.weight)
    found = interactions(linear, torch.zeros(1, 3))
    assert found.variance.tolist() == [0.0, 0.0]
    torch.testing.assert_close(found.mean, linear.bias.detach().double())
