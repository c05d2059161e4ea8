"""Bounds must hold for every input in the box, whatever floating point does, and be tighter than intervals."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum
from pinets.algebra import NotPolynomialError, ball, bounds, interval_bounds, lipschitz, margins
from pinets.algebra.domains.base import Signed
from pinets.algebra.domains.footprint import footprints
from pinets.algebra.domains.interval import Interval
from pinets.algebra.domains.norms import largest_sum_of_squares, spectral_norm
from pinets.algebra.enclosure import Problem
from tests.algebra.networks import CONV, Function
from tests.attack.boxes import rational_ccp


def trained_norm(channels, kind):
    norm = kind(channels)
    for value in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(value.data)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return norm


def matrix_products(x):
    return x.reshape(-1, 2, 3) @ x.reshape(-1, 3, 2) - 2 * x.sum(1)[:, None, None]


def linear_functions(x):
    mean = x[:, :3].mean(1, keepdim=True).expand(-1, 3)
    return (3 - x).flip(1).cumsum(1) * -x / -0.3 + torch.cat([x[:, 3:], mean], 1)


MODELS = {
    "CCP": lambda: CCP(6, 4, rank=5, order=4),
    "NCP": lambda: NCP(6, 4, rank=5, order=3),
    "NCP-Skip": lambda: NCPSkip(6, 4, rank=5, order=3),
    "a product with batch norm": lambda: nn.Sequential(
        CCP(6, 5, rank=4, order=2), trained_norm(5, nn.BatchNorm1d), NCP(5, 4, rank=4, order=2)
    ),
    "powers": lambda: nn.Sequential(nn.Linear(6, 4), PowerSum(3)),
    "matrix products of the input": lambda: Function(matrix_products),
    "all sorts of linear functions": lambda: Function(linear_functions),
    "a convolutional network": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        NCP(1, 3, rank=3, order=2, op=CONV),
        trained_norm(3, nn.BatchNorm2d),
        CCP(3, 2, rank=2, order=2, op=CONV),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ),
}


@cache
def traced(name, precision=torch.float32):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = MODELS[name]().eval()
    return model, Problem.of(model, Interval(torch.zeros(1, 6), torch.zeros(1, 6)), precision)


numbers = st.floats(-2, 2, width=32)
vectors = st.lists(numbers, min_size=6, max_size=6)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20, deadline=None)
@given(centre=vectors, eps=st.sampled_from([0.0, 1e-7, 1e-3, 0.1, 1.0]), seed=st.integers(0, 2**31))
def test_every_input_of_the_box_gives_outputs_within_the_bounds(name, centre, eps, seed):
    """Dense samples and all corners, evaluated in single precision, as a user does."""
    model, problem = traced(name)
    lower, upper = ball(torch.tensor([centre]), eps)
    inside = Interval(lower, upper)
    found, plain, linear = problem.enclose(inside), problem.enclose_plainly(inside), problem.linear(lower, upper)
    generator = torch.Generator().manual_seed(seed)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 6)
    places = torch.cat([corners, torch.rand(500, 6, generator=generator), torch.full((1, 6), 0.5)]).double()
    points = (lower + (upper - lower) * places).float()
    points = points[((points.double() >= lower) & (points.double() <= upper)).all(1)]
    with torch.no_grad():
        outputs = model(points).double()
    for bound in (found, plain, linear):
        assert (outputs >= bound.lower).all()
        assert (outputs <= bound.upper).all()
    assert (found.lower >= plain.lower).all()
    assert (found.upper <= plain.upper).all()


@settings(max_examples=20, deadline=None)
@given(centre=vectors, eps=st.sampled_from([0.0, 1e-12, 1e-3, 0.5]), seed=st.integers(0, 2**31))
def test_bounds_hold_in_exact_arithmetic(centre, eps, seed):
    """The polynomial in rational numbers, without any rounding, against the bounds for exact evaluation."""
    model, problem = traced("CCP", None)
    lower, upper = ball(torch.tensor([centre], dtype=torch.float64), eps)
    found = problem.enclose(Interval(lower, upper)).meet(problem.linear(lower, upper))
    places = torch.rand(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).round(decimals=1)
    for place in places:
        z = [
            Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(t)
            for low, high, t in zip(lower[0].tolist(), upper[0].tolist(), place.tolist(), strict=True)
        ]
        for output, low, high in zip(
            rational_ccp(model, z), found.lower[0].tolist(), found.upper[0].tolist(), strict=True
        ):
            assert Fraction(low) <= output <= Fraction(high)


@pytest.mark.parametrize("name", ["CCP", "NCP", "NCP-Skip", "a product with batch norm", "a convolutional network"])
def test_tighter_than_plain_intervals(name):
    _, problem = traced(name)
    centre = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    inside = Interval(*ball(centre, 0.02))
    found, plain = problem.enclose(inside), problem.enclose_plainly(inside)
    assert ((plain.upper - plain.lower) / (found.upper - found.lower)).mean() > 1.2


def test_three_times_tighter_for_networks_of_the_size_of_digits():
    torch.manual_seed(0)
    model = CCP(196, 10, rank=64, order=3)
    lower, upper = ball(torch.rand(2, 196), 4 / 255, minimum=0.0, maximum=1.0)
    assert (interval_bounds(model, lower, upper).width / bounds(model, lower, upper).width).mean() > 3


def test_the_transpose_of_a_large_weight_does_not_loosen_bounds():
    """It is no value of the network, and takes none of the memory that zonotopes are limited to."""
    weight, head, linear = torch.randn(64, 400) / 20, torch.randn(2, 64) / 8, nn.functional.linear
    box = ball(torch.randn(1, 400), 0.1)
    found = bounds(Function(lambda x: (x @ weight.T).square() @ head.T), *box, precision=None)
    same = bounds(Function(lambda x: linear(linear(x, weight).square(), head)), *box, precision=None)
    for end, expected in ((found.lower, same.lower), (found.upper, same.upper)):
        torch.testing.assert_close(end, expected, rtol=1e-9, atol=1e-12)


def test_branch_and_bound_closes_in_on_the_true_range():
    """x**3 - x - y over [-1, 1] x [0, 1]: from -1 - t to t, with t = 2 / 27**0.5."""
    model = Function(lambda x: x[:, :1] ** 3 - x[:, :1] - x[:, 1:])
    lower, upper = torch.tensor([[-1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    widths, most = [], 2 / 27**0.5
    for boxes in (1, 8, 64):
        found = bounds(model, lower, upper, boxes=boxes)
        assert found.lower.item() <= -1 - most
        assert found.upper.item() >= most
        widths.append(found.width.item())
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 1 + 2 * most + 0.05


def test_branch_and_bound_of_a_network_is_sound_and_near_what_samples_reach():
    torch.manual_seed(0)
    model = NCP(3, 2, rank=4, order=3)
    lower, upper = ball(torch.zeros(1, 3), 1.0)
    found, at_once = bounds(model, lower, upper, boxes=128), bounds(model, lower, upper)
    with torch.no_grad():
        grid = model(torch.cartesian_prod(*[torch.linspace(-1, 1, 31)] * 3)).double()
    reached = grid.amax(0) - grid.amin(0)
    assert (found.lower <= grid.amin(0)).all()
    assert (found.upper >= grid.amax(0)).all()
    assert (found.width < 1.2 * reached).all()
    assert (found.width < 0.8 * at_once.width).all()


@pytest.mark.parametrize("memory", ["enough for zonotopes", "too little"])
@pytest.mark.parametrize("name", ["CCP", "NCP-Skip", "a convolutional network", "matrix products of the input"])
def test_lipschitz_bounds_the_sum_of_derivatives_all_over_the_box(name, memory, monkeypatch):
    if memory == "too little":
        monkeypatch.setattr("pinets.algebra.enclosure._LARGEST", 1)
    model, _ = traced(name)
    centre = torch.randn(1, 6, generator=torch.Generator().manual_seed(0))
    lower, upper = ball(centre, 0.3)
    rate = lipschitz(model, lower, upper)
    points = (lower + (upper - lower) * torch.rand(200, 6, dtype=torch.float64)).float()
    slopes = torch.func.vmap(torch.func.jacrev(lambda x: model(x[None])[0]))(points).abs().sum(-1)
    assert (slopes.amax(0) <= rate[0]).all()
    at_the_centre = lipschitz(model, centre, centre)[0].float()
    exact = torch.func.jacrev(lambda x: model(x[None])[0])(centre[0]).abs().sum(-1)
    torch.testing.assert_close(at_the_centre, exact, rtol=1e-5, atol=1e-5)


def test_margins_are_tighter_than_differences_of_bounds_and_sound():
    model, _ = traced("CCP")
    centre = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    lower, upper = ball(centre, 0.05)
    labels = torch.arange(5) % 4
    least, found = margins(model, lower, upper, labels), bounds(model, lower, upper)
    from_bounds = found.lower.gather(1, labels[:, None]) - found.upper
    others = torch.nn.functional.one_hot(labels, 4) == 0
    assert (least[others] >= from_bounds[others] - 1e-5).all()
    assert (least - from_bounds)[others].mean() > 0.01
    assert (least[~others] == 0).all()
    points = (lower + (upper - lower) * torch.rand(300, 5, 6, dtype=torch.float64)).float()
    with torch.no_grad():
        outputs = model(points.reshape(-1, 6)).reshape(300, 5, 4).double()
    differences = outputs.gather(2, labels.expand(300, 5)[..., None]) - outputs
    assert (differences.amin(0) >= least - 1e-6).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.0, 1e-30, 1.0, 1e30]))
def test_norms_are_bounds_and_nearly_exact(seed, scale):
    generator = torch.Generator().manual_seed(seed)
    matrices = scale * torch.randn(3, 7, 7, generator=generator, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrices, 2)
    bound = spectral_norm(matrices)
    assert (bound >= exact * (1 - 1e-14)).all()
    assert (bound <= exact * 1.04 + 1e-200).all()


def test_sums_of_squares_against_all_corners():
    """A convex function is largest at a corner."""
    forms = torch.randn(8, 5, dtype=torch.float64) * torch.logspace(-2, 0, 8, dtype=torch.float64)[:, None]
    weights = torch.rand(3, 5, dtype=torch.float64)
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 8)
    exact = ((corners @ forms).square() @ weights.T).amax(0)
    bound = largest_sum_of_squares(forms, weights)
    assert (bound >= exact).all()
    assert (bound <= (weights * forms.abs().sum(0).square()).sum(1) * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("function", "picks"),
    [
        (lambda x: x[:, ::2].flip(0), [True]),
        (lambda x: x.sum(0), [False]),
        (lambda x: x.mean(1), [False]),
        (lambda x: (x[:, :3] + x[:, 1:4]) / 2, [False]),
        (Signed(lambda x, y: x - 2 * y, lambda x, y: x + 2 * y), [True, True]),
        (lambda x, y: torch.cat([x, y]), [True, True]),
        (lambda x, y: x + y.roll(1, 0) + y, [True, False]),
        (lambda x: x[:, 0] + 1e-40 * x[:, 5], [False]),
        (lambda x: 1e-40 * x[1] + x[2], [False]),
        (lambda x: 0.3 * x.T / 7, [True]),
    ],
)
def test_what_a_function_takes_is_found_out(function, picks):
    operands = [torch.zeros(3, 7)] * len(picks)
    assert [use.picks for use in footprints(function, operands)] == picks


def test_small_coefficients_of_large_values_count():
    scales, mix = torch.tensor([1.0, 1e8], dtype=torch.float64), torch.tensor([[1.0], [1e-14]], dtype=torch.float64)
    model = Function(lambda z: torch.einsum("bi,ij->bj", (z[:, :2] * scales) * (z[:, 2:] * scales), mix))
    corner = torch.ones(1, 4, dtype=torch.float64)
    found = bounds(model, -corner, corner)
    assert found.lower.item() <= -101
    assert model(corner).item() <= found.upper.item() <= 102


def test_numbers_too_large_for_the_precision_are_bounded_by_nothing():
    """In single precision the network gives infinity and NaN there; in double precision it does not."""
    model = nn.Sequential(nn.Linear(2, 3), PowerSum(3), nn.Linear(3, 2))
    lower, upper = ball(torch.full((1, 2), 1e13), 1.0)
    assert not model((torch.rand(100, 2) * 2 - 1 + 1e13) * 1.0).isfinite().all()
    for found in (
        bounds(model, lower, upper),
        bounds(model, lower, upper, boxes=4),
        interval_bounds(model, lower, upper),
    ):
        assert found.lower.tolist() == [[-torch.inf] * 2]
        assert found.upper.tolist() == [[torch.inf] * 2]
    assert bounds(model.double(), lower, upper, precision=torch.float64).width.isfinite().all()
    huge = ball(torch.zeros(1, 2), 1e200)
    assert bounds(model, *huge, precision=None).width.isinf().all()
    assert lipschitz(model, *huge).isinf().all()


def test_a_network_that_rounds_more_than_it_is_said_to_is_refused():
    model, lower, upper = CCP(6, 2, rank=3, order=2), torch.zeros(1, 6), torch.ones(1, 6)
    with pytest.raises(ValueError, match=r"computes in torch\.bfloat16, and bounds for evaluation in torch\.float32"):
        bounds(CCP(6, 2, rank=3, order=2).bfloat16(), lower, upper)
    with pytest.raises(ValueError, match=r"computes in torch\.float32, .*precision=None"):
        bounds(model, lower, upper, precision=torch.float64)
    half_way = nn.Sequential(model, Function(lambda x: x.half().float() ** 2))
    with pytest.raises(ValueError, match=r"computes in torch\.float16, and bounds for evaluation in torch\.float32"):
        bounds(half_way, lower, upper)
    assert bounds(model, lower, upper, precision=None).width.isfinite().all()


class Contraction(nn.Module):
    """A sum of very many products that are tiny, and cancel: one operand of the einsum, then two."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.register_buffer("first", torch.randn(2, inner) * 1e-3)
        self.register_buffer("second", torch.randn(inner, 1) * 1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = torch.einsum("bi,ij,jo->bo", x, self.first, self.second)
        return once + torch.einsum("bi,bi,ij,jo->bo", x, x, self.first, self.second)


def test_all_terms_of_a_contraction_count_as_rounding():
    """The error of one rounding in each of 2 x 4000 terms, all in one direction, must fit between the bounds."""
    torch.manual_seed(0)
    inner = 4000
    model, x = Contraction(inner), torch.ones(1, 2)
    found = bounds(model, x, x)
    size = 2 * (model.first.double().abs() @ model.second.double().abs()).sum()
    assert found.width.item() > inner * 2.0**-24 * size


def test_rounding_of_a_computed_bias_counts():
    """B^T b is computed in single precision, of terms far larger than their sum."""
    torch.manual_seed(0)
    model = NCP(2, 2, rank=3, order=2, bias_size=64)
    factor = model.steps[0].body.parametrizations.bias[0].weight
    with torch.no_grad():
        factor.mul_(1e6)
        factor[-1] = -factor[:-1].sum(0)
    x = torch.ones(1, 2)
    outputs, found, exact = model(x).double(), bounds(model, x, x), bounds(model, x, x, precision=None)
    assert ((outputs < exact.lower) | (outputs > exact.upper)).all(), "single precision errs here"
    assert (outputs >= found.lower).all()
    assert (outputs <= found.upper).all()


def test_bad_boxes_are_refused_with_the_rule():
    model, x = CCP(6, 2, rank=3, order=2), torch.zeros(2, 6)
    with pytest.raises(ValueError, match="lower must not exceed upper, but does in 12 of 12 places"):
        bounds(model, x + 1, x)
    with pytest.raises(ValueError, match=r"same shape, one box in each row; got \(2, 6\) and \(1, 6\)"):
        bounds(model, x, x[:1])
    with pytest.raises(ValueError, match=r"must have a batch axis, one box in each row; got shape \(6,\)"):
        bounds(model, *ball(x[0], 0.1))
    with pytest.raises(TypeError, match="x must be a tensor, got ndarray"):
        ball(x.numpy(), 0.1)
    with pytest.raises(ValueError, match="must be finite"):
        bounds(model, x, x + torch.inf)
    with pytest.raises(ValueError, match="eps must not be negative, got -1"):
        ball(x, -1)
    with pytest.raises(ValueError, match="minimum must not exceed maximum, got 1 and 0"):
        ball(x, 0.1, minimum=1, maximum=0)
    with pytest.raises(ValueError, match=r"below minimum = 0 or above maximum = 1, .*; got 1 of 2 values beyond"):
        ball(torch.tensor([[-1.0, 1.05]]), 0.1, minimum=0, maximum=1)
    with pytest.raises(ValueError, match="boxes must be a whole number of at least 1, got 0"):
        bounds(model, x, x, boxes=0)
    with pytest.raises(ValueError, match=r"float32 and float64, got torch\.bfloat16.*\.float\(\)"):
        bounds(model, x, x, precision=torch.bfloat16)
    with pytest.raises(ValueError, match="labels must be 2 whole numbers from 0 to 1"):
        margins(model, x, x, torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="labels must be 2 whole numbers from 0 to 1"):
        margins(model, x, x, torch.tensor([0.0, 1.0]))


def test_a_network_that_is_no_polynomial_is_refused_with_what_to_put_in_its_place():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.LayerNorm(6))
    with pytest.raises(
        NotPolynomialError, match=r"(?s)1 \(ReLU\): relu.*PowerSum.*2 \(LayerNorm\).*batch norm is affine"
    ):
        bounds(model, torch.zeros(1, 6), torch.ones(1, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("made", ["pad", "full_like", "masked_fill"])
def test_constants_of_operations_have_the_networks_precision(made, dtype):
    """0.1 is one number in single precision and another in double."""

    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Parameter(torch.ones((), dtype=dtype))  # tells the type of the network

        def forward(self, x):
            x = x * self.one
            if made == "pad":
                return nn.functional.pad(x, (0, 1), value=0.1)[:, -1:] + 0 * x[:, :1]
            if made == "full_like":
                return x[:, :1] * 0 + torch.full_like(x[:, :1], 0.1)
            return x.masked_fill(torch.ones_like(x, dtype=torch.bool), 0.1)

    x = torch.zeros(1, 1, dtype=dtype)
    found = bounds(Constant(), x - 1, x + 1, precision=None)
    value = torch.tensor(0.1, dtype=dtype).double()
    assert (found.lower <= value).all()
    assert (value <= found.upper).all()
    assert (found.upper - found.lower).max() < 1e-12


def test_margins_are_for_rows_of_outputs_alone():
    network = nn.Sequential(nn.Conv2d(1, 2, 2), CCP(2, 2, rank=2, order=2))
    with pytest.raises(ValueError, match=r"one row of outputs for each input, got shape \(1, 2, 2, 2\)"):
        margins(network, *ball(torch.zeros(1, 1, 3, 3), 0.1), torch.tensor([0]))


def test_interpolation_whose_weights_are_rounded_has_no_bounds_in_that_precision():
    x = torch.rand(1, 1, 22)
    third = nn.Upsample(size=64, mode="linear", align_corners=True)
    with pytest.raises(ValueError, match="upsample_linear1d computes its weights with rounding errors"):
        bounds(third, x, x)
    found = bounds(third, x.double(), x.double(), precision=None)
    exact = third(x.double())
    assert (found.lower <= exact + 1e-12).all()
    assert (exact - 1e-12 <= found.upper).all()


@pytest.mark.parametrize(
    "layer",
    [
        *(
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Upsample(size=(82, 41)),
            nn.Upsample(size=74, mode="nearest"),
        ),
        *(nn.AvgPool2d(2, divisor_override=-2), nn.Identity(), nn.Flatten()),
    ],
    ids=lambda layer: str(layer)[:40],
)
def test_layers_that_only_move_or_average_are_bounded_as_torch_computes_them(layer):
    x = torch.randn(3, 1, 4, 6, dtype=torch.float64)  # numbers that single precision cannot hold
    lower, upper = x - 0.1, x + 0.1
    found = bounds(layer, lower, upper)
    for t in (0.0, 0.3, 1.0):
        out = layer((lower + t * (upper - lower)).float()).double()
        assert (found.lower <= out).all()
        assert (out <= found.upper).all()


def test_rows_that_depend_on_each_other_have_no_bounds():
    with pytest.raises(ValueError, match="depends on the other rows"):
        bounds(Function(lambda x: x - x.mean(0)), torch.zeros(2, 1), torch.ones(2, 1))
    with torch.no_grad(), pytest.raises(ValueError, match="depends on the other rows"):
        bounds(Function(lambda x: x + 1e-30 * x.sum()), torch.zeros(1, 1), torch.ones(1, 1))


def test_arguments_of_another_kind_are_told():
    box = torch.zeros(1, 4), torch.ones(1, 4)
    with pytest.raises(TypeError, match="lower must be a tensor, got tuple"):
        bounds(nn.Identity(), box, box)
    with pytest.raises(ValueError, match=r"boxes must be a whole number of at least 1, got 2\.5"):
        bounds(nn.Identity(), *box, boxes=2.5)
    assert margins(nn.Identity(), *box, [2]).shape == (1, 4)
