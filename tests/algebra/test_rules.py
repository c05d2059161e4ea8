"""Every operation that has a rule: its degree, its exact parts, its bounds, against torch itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pinets.algebra import ball, bounds, certify, expand, interval_bounds, lipschitz, margins, orders


class Function(nn.Module):
    """A network that is one function, of the input alone or of a buffer w and the input."""

    def __init__(self, function, w=None) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("w", w)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x) if self.w is None else self.function(self.w, x)


COLUMNS = torch.tensor([[0, 2, 1, 0, 2, 1]])
POSITIONS = torch.tensor([0, 2, 1, 0, 2, 1])
ZEROS = torch.zeros(6, dtype=torch.int64)
GIVEN = torch.tensor([[0.5, -1.0, 2.0, 0.25, -0.75, 3.0]])
SMALL = torch.tensor([[0.3, 0.8, -0.7, 0.45, 1.0, -2.0]])


def matrix(x, rows):
    return x[:, : rows * rows].reshape(-1, rows, rows)


def every_other_column(x):
    out = torch.zeros_like(x)
    out[:, ::2], out[:, 1::2] = x[:, 1::2], x[:, ::2] * x[:, 1::2]
    return out


def precise_column(x):
    out = torch.zeros_like(x)
    out[:, 0] = x[:, 1].double()
    return out


OPERATIONS = {
    "type_as": (lambda x: x.type_as(GIVEN) * x, 2),
    "hstack": (lambda x: torch.hstack([x, x * x]), 2),
    "tensordot": (lambda x: torch.tensordot(x, GIVEN * x, dims=([1], [1])), 2),
    "diff": (lambda x: torch.diff(x * x, n=2, prepend=GIVEN, dim=1), 2),
    "lerp by a number": (lambda x: torch.lerp(x, x * x, 0.7), 2),
    "lerp by a constant": (lambda x: torch.lerp(x, x * x, SMALL), 2),
    "lerp by a value": (lambda x: torch.lerp(x, x * x, x), 3),
    "scatter_add": (lambda x: GIVEN.scatter_add(1, COLUMNS, x * x), 2),
    "scatter": (lambda x: x.scatter(1, COLUMNS[:, :3], (x * x)[:, :3]), 2),
    "scatter a number": (lambda x: x.scatter(1, COLUMNS[:, :3], 2.5), 1),
    "scatter_reduce": (lambda x: x.scatter_reduce(1, COLUMNS, x * x, "sum", include_self=False), 2),
    "index_add": (lambda x: x.index_add(1, POSITIONS, x * x, alpha=-2), 2),
    "index_copy": (lambda x: x.index_copy(1, POSITIONS[:3], (x * x)[:, :3]), 2),
    "index_fill": (lambda x: x.index_fill(1, POSITIONS[:2], 3.0), 1),
    "scatter to a place twice": (lambda x: x.scatter(1, COLUMNS, x * x) * x, 3),
    "index_copy to a place twice": (lambda x: x.index_copy(1, POSITIONS, x * x) * x, 3),
    "index_put to a place twice": (lambda x: x.index_put((ZEROS, POSITIONS), (x * x)[0]) * x, 3),
    "put to a place twice": (lambda x: x.clone().put_(POSITIONS, (x * x)[0]) * x, 3),
    "detach": (lambda x: x.detach() * x, 2),
    "embedding": (lambda x: F.embedding(POSITIONS, x.mT, padding_idx=0).mT ** 2, 2),
    "every other column": (lambda x: every_other_column(x), 2),
    "another precision written into a part": (lambda x: precise_column(x) @ matrix6(), 1),
    "masked_scatter": (lambda x: x.masked_scatter(GIVEN > 0, x * x), 2),
    "cumprod": (lambda x: x.cumprod(1), 6),
    "diag_embed": (lambda x: (x * x).diag_embed(), 2),
    "cross": (lambda x: torch.linalg.cross(x[:, :3], x[:, 3:]), 2),
    "vecdot": (lambda x: torch.linalg.vecdot(x, GIVEN * x)[:, None], 2),
    "take_along_dim": (lambda x: torch.take_along_dim(x, COLUMNS, 1) * x, 2),
    "einsum of three": (lambda x: torch.einsum("bi,bj,bi->bj", x, x, x), 3),
    "einsum of four and a constant": (lambda x: torch.einsum("bi,bi,ij,bj,...i->b...", x, x, matrix6(), x, x), 4),
    "einsum without an arrow": (lambda x: torch.einsum("bi,ij,bj", x, matrix6(), x)[None], 2),
    "einsum of a diagonal": (lambda x: torch.einsum("bii->bi", x[:, :4].reshape(-1, 2, 2)) ** 2, 2),
    "var": (lambda x: x.var(1, keepdim=True), 2),
    "var of all": (lambda x: (x * x).reshape(-1, 6).var(dim=1, unbiased=False)[:, None], 4),
    "var_mean": (lambda x: torch.cat(torch.var_mean(x, 1, keepdim=True), 1), 2),
    "addbmm": (lambda x: torch.addbmm(GIVEN[:, :4].reshape(2, 2), matrix(x, 2), matrix(x, 2), alpha=-3)[None], 2),
    "addcdiv": (lambda x: torch.addcdiv(x, x * x, GIVEN, value=-2), 2),
    "addcmul": (lambda x: torch.addcmul(GIVEN, x, x, value=-2), 2),
    "matrix_power": (lambda x: torch.linalg.matrix_power(matrix(x, 2), 3), 3),
    "multi_dot": (lambda x: torch.linalg.multi_dot([x, x.T, x]), 3),
    "mse_loss": (lambda x: F.mse_loss(x, GIVEN, reduction="none"), 2),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor(3)) * x, 2),
    "trapezoid": (lambda x: torch.trapezoid(x * x)[:, None], 2),
    "a product of all": (lambda x: x.prod(1, keepdim=True), 6),
    "a mean": (lambda x: (x * x).mean(1, keepdim=True), 2),
    "pools": (lambda x: F.adaptive_avg_pool1d(F.avg_pool1d(x[:, None] ** 2, 2), 2)[:, 0], 2),
    "in place": (lambda x: x.clone().mul_(2).add_(x * x), 2),
}


MIXING = {"masked_scatter", "einsum without an arrow", "addbmm", "multi_dot"}  # the rows of a batch: no bounds


def matrix6():
    return torch.arange(36.0).reshape(6, 6) / 8 - 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_known_with_degree_parts_and_bounds(name):
    function, degree = OPERATIONS[name]
    model = Function(function)
    certificate = certify(model, SMALL)
    assert certificate.degree == degree, certificate
    torch.testing.assert_close(orders(model, SMALL).sum(0), function(SMALL), rtol=1e-5, atol=1e-5)
    for eps in () if name in MIXING else (0.0, 0.2):
        lower, upper = ball(SMALL, eps)
        for found in (bounds(model, lower, upper), interval_bounds(model, lower, upper)):
            for place in (*torch.rand(20, 6, generator=torch.Generator().manual_seed(0)), torch.full((6,), 0.5)):
                x = (lower + (upper - lower) * place).float()
                if eps == 0 or ((lower <= x) & (x <= upper)).all():
                    out = function(x).double()
                    assert out.shape == found.lower.shape
                    assert (found.lower <= out).all()
                    assert (out <= found.upper).all()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if "twice" in name or name in ("detach", "embedding")])
def test_rates_where_torch_has_another_derivative(name):
    function, _ = OPERATIONS[name]
    x, step = SMALL.double(), 1e-6
    with torch.no_grad():
        differences = [(function(x + step * axis) - function(x - step * axis)) / (2 * step) for axis in torch.eye(6)]
    slopes = torch.stack(differences).abs().sum(0)
    torch.testing.assert_close(lipschitz(Function(function), x, x), slopes, rtol=1e-6, atol=1e-6)


def test_expand_where_a_part_with_steps_is_written():
    z = torch.randn(1, 6, dtype=torch.float64)
    torch.testing.assert_close(expand(Function(every_other_column), z)(z), every_other_column(z))


def test_a_determinant():
    diagonal = torch.diag(GIVEN[0, :4].double())
    model = Function(lambda x: torch.linalg.det(torch.einsum("bi,bj->bij", x, x)[:, :4, :4] + diagonal))
    x = SMALL.double()
    assert certify(model, x).degree == 2  # of a matrix of rank 1 and a diagonal one
    torch.testing.assert_close(orders(model, x).sum(0), model(x))
    found = bounds(model, x - 0.1, x + 0.1, precision=None)
    assert (found.lower <= model(x)).all()
    assert (model(x) <= found.upper).all()
    with pytest.raises(ValueError, match="det computes by elimination"):
        bounds(model, x, x, precision=torch.float64)
    assert "at most 8 rows" in str(certify(Function(torch.linalg.det), torch.randn(1, 9, 9)))


@pytest.mark.parametrize("function", [lambda x: x.view(torch.float64).float(), lambda x: x.view(torch.float16)])
def test_bits_are_not_numbers(function):
    certificate = certify(Function(function), SMALL)
    assert "view reinterprets the bits" in str(certificate)


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.gate, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 4), nn.Linear(16, 2)

    def forward(self, x):
        y = self.features(x)
        return self.head((y * self.gate(y.mean((2, 3)))[:, :, None, None]).flatten(1))


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Function(lambda x: (x[:, :, None] * x[:, None, :]).flatten(1)), (1, 3)), (SqueezeExcite(), (1, 1, 4, 4))],
)
def test_broadcast_products_may_be_reshaped(model, shape):
    lower, upper = ball(torch.randn(shape), 0.1)
    found = bounds(model, lower, upper)
    with torch.no_grad():
        outputs = model((lower + (upper - lower) * torch.rand(50, *shape[1:])).float()).double()
        assert ((found.lower <= outputs) & (outputs <= found.upper)).all()
        assert margins(model, lower, upper, torch.tensor([1])).isfinite().all()
        assert lipschitz(model, lower, upper).isfinite().all()


ONES = torch.ones(12)


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: x + w.sum(),
        lambda w, x: x + w.mean(),
        lambda w, x: x + torch.einsum("i,i->", w, ONES),
        lambda w, x: x + torch.bmm(w.reshape(1, 1, 12), ONES.reshape(1, 12, 1))[0],
        lambda w, x: x + F.conv1d(w.reshape(1, 1, 12), ONES.reshape(1, 1, 12))[0],
        lambda w, x: x + torch.addcmul(w[:1], w[1:2] * 1e8, -ONES[:1]),
        lambda w, x: x + w.reshape(2, 6).sum(1).split(1)[1],
        lambda w, x: x * w.cumsum(0)[-1:].expand(3),
        lambda w, x: x / (w.sum() + 1e5),
        lambda w, x: torch.cat([x, w.sum().reshape(1, 1)], 1),
    ],
)
def test_rounding_of_computed_constants_counts(function):
    """Sums of 1e8, 1 and -1e8 are off by more than their value in single precision."""
    model, x = Function(function, torch.tensor([1e8, 1.0, -1e8] * 4)), torch.tensor([[0.5, -1.0, 2.0]])
    found, outputs = bounds(model, x, x), model(x).double()
    assert ((found.lower <= outputs) & (outputs <= found.upper)).all()


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x.mean(1, keepdim=True), torch.full((1, 100), 1e37)),
        (lambda x: F.avg_pool1d(x[None], 100)[0], torch.full((1, 100), 1e37)),
        (lambda x: F.adaptive_avg_pool1d(x[None], 1)[0], torch.full((1, 100), 1e37)),
        (lambda x: x.prod(1, keepdim=True), torch.tensor([[1e30, 1e30, 1e-30, 1e-30]])),
        (lambda x: x.prod(1, keepdim=True), torch.tensor([[1e-30, 1e-30, 1e30, 1e30]])),
        (lambda x: x.cumprod(1), torch.tensor([[1e30, 1e30, 1e-30, 1e-30]])),
        (lambda x: torch.einsum("bi,bi,bi->b", x, x, x * 1e-30), torch.full((1, 2), 1e22)),
        (lambda x: torch.addcmul(x, x, x, value=1e-30), torch.full((1, 2), 1e22)),
    ],
)
def test_overflow_and_underflow_inside_an_operation(function, x):
    """The polynomial has an ordinary value there; single precision gives infinity, NaN or zero on some machines."""
    found = bounds(Function(function), x, x)
    assert (found.lower == -torch.inf).any()
    assert (found.upper == torch.inf).any()


def broken_batch_norm():
    norm = nn.BatchNorm1d(6)
    norm.running_var.fill_(-1.0)
    return norm


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Function(lambda x: x / 0.0), "div divides by zero"),
        (Function(lambda x: x / torch.tensor([1.0, 0.0] * 3)), "div divides by zero"),
        (Function(lambda x: x * torch.inf), "mul has a constant that is NaN or infinite"),
        (Function(lambda x: x * 1e39), "mul has a constant that is NaN or infinite"),
        (Function(lambda x: x + torch.nan), "add has a constant that is NaN or infinite"),
        (Function(lambda x: F.pad(x, (0, 1), value=torch.inf)), "has a constant that is NaN or infinite"),
        (broken_batch_norm(), "takes the root of a running variance that is not positive"),
    ],
)
def test_what_is_not_finite_is_not_a_polynomial(model, reason):
    certificate = certify(model, SMALL)
    assert not certificate.polynomial
    assert reason in str(certificate)


def test_rounding_along_the_line_is_not_taken_for_a_deviation():
    certificate = certify(Function(lambda x: (1e8 * x + 1) ** 3 - (1e8 * x) ** 3 - 3e16 * x**2), SMALL.double())
    assert certificate.polynomial
    assert "rounding errors" in str(certificate)


def test_exponents_of_more_axes_than_the_base():
    model = Function(lambda x: (x ** torch.tensor([[[2.0]]]))[0])
    found = bounds(model, *ball(SMALL, 0.1))
    assert found.lower.shape == model(SMALL).shape
    torch.testing.assert_close(orders(model, SMALL)[2], SMALL**2)


def test_a_forward_that_changes_its_input():
    def doubled(x):
        x *= 2
        return x * x

    x = SMALL.clone()
    assert certify(Function(doubled), x).degree == 2
    torch.testing.assert_close(orders(Function(doubled), x)[2], 4 * SMALL**2)
    assert bounds(Function(doubled), *ball(x, 0.1)).lower.shape == (1, 6)
    assert torch.equal(x, SMALL)


def test_double_precision_without_parameters():
    found = bounds(Function(lambda x: x * x), *ball(SMALL, 0.1), precision=torch.float64)
    assert found.width.isfinite().all()
    with pytest.raises(ValueError, match=r"computes in torch\.float32"):
        bounds(Function(lambda x: x.float() * x.float()), *ball(SMALL, 0.1), precision=torch.float64)
