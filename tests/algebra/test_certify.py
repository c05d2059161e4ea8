import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pinets import CCP, NCP, NCPSkip, PowerSum, certify
from pinets.algebra import Certificate, NotPolynomialError, orders
from pinets.algebra._certify import _same_form
from pinets.algebra.domains.leading import Leading
from pinets.testing import assert_polynomial
from tests.algebra.networks import CONV, Function


def vector(features: int = 6) -> torch.Tensor:
    return torch.randn(2, features, generator=torch.Generator().manual_seed(0))


def image() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", [CCP, NCP, NCPSkip])
@pytest.mark.parametrize("order", [1, 2, 3, 8, 16])
def test_degree_is_the_order(model, order):
    certificate = certify(model(6, 4, rank=5, order=order), vector())
    assert certificate.polynomial
    assert certificate.degree == order
    assert certificate.violations == []


def test_degree_of_a_product_is_the_product_of_degrees():
    product = nn.Sequential(CCP(6, 5, rank=4, order=3), NCP(5, 4, rank=4, order=2), NCPSkip(4, 3, rank=4, order=4))
    assert certify(product, vector()).degree == 24


def test_degrees_in_the_hundreds():
    product = nn.Sequential(*(NCP(6, 6, rank=6, order=2) for _ in range(9)))
    assert certify(product, vector()).degree == 512


def test_claiming_one_degree_less_is_refused():
    layer = NCP(6, 4, rank=5, order=4)
    assert_polynomial(layer, vector(), degree=4)
    for wrong in (3, 5):
        with pytest.raises(
            AssertionError, match=f"expected a polynomial of degree {wrong}, got a polynomial of degree 4"
        ):
            assert_polynomial(layer, vector(), degree=wrong)


def test_convolutional_network_with_batch_norm_in_evaluation_mode():
    network = nn.Sequential(
        NCP(3, 8, rank=8, order=2, op=CONV),
        nn.BatchNorm2d(8),
        nn.AvgPool2d(2),
        NCPSkip(8, 8, rank=4, order=2, op=CONV),
        nn.Upsample(scale_factor=2),
        nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    assert network.training
    assert certify(network, image()).degree == 4
    assert network.training, "certify must leave the network as it was"
    assert network[1].num_batches_tracked == 0


@pytest.mark.parametrize(
    ("module", "operation"),
    [
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.LeakyReLU(), "leaky_relu"),
        (nn.PReLU(), "prelu"),
        (nn.Tanh(), "tanh"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.GELU(), "gelu"),
        (nn.SiLU(), "silu"),
        (nn.ELU(), "elu"),
        (nn.Softmax(dim=1), "softmax"),
        (nn.MaxPool2d(2), "max_pool2d"),
        (nn.InstanceNorm2d(8), "instance_norm"),
        (nn.GroupNorm(2, 8), "group_norm"),
        (nn.LayerNorm([8, 8, 8]), "layer_norm"),
        (nn.BatchNorm2d(8, track_running_stats=False), "batch_norm"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_breaks_polynomiality_is_named_with_its_path(module, operation):
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Sequential(nn.Identity(), module), CCP(8, 2, rank=4, order=2, op=CONV)
    )
    certificate = certify(network, image())
    assert not certificate.polynomial
    assert certificate.degree is None
    (violation,) = certificate.violations
    assert violation.path == "1.1"
    assert operation in violation.operation
    assert violation.module == type(module).__name__
    assert violation.reason


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x: x / x.sum(), "div"),
        (lambda x: 1 / x, "reciprocal"),
        (lambda x: x**0.5, "pow"),
        (lambda x: x**-1, "pow"),
        (lambda x: 2**x, "pow"),
        (lambda x: torch.where(x > 0, x, -x), "where"),
        (lambda x: x.abs(), "abs"),
        (lambda x: x.max(dim=1).values, "max"),
        (lambda x: x.sort(dim=1).values, "sort"),
        (lambda x: x[:, x.argmax(dim=1)], "argmax"),
        (lambda x: torch.linalg.norm(x, dim=1), "norm"),
        (lambda x: x.to(torch.int32).float(), "to_copy"),
        (lambda x: F.normalize(x), "norm"),
    ],
)
def test_functions_that_are_not_polynomial(function, operation):
    certificate = certify(Function(function), vector())
    assert not certificate.polynomial
    assert any(operation in violation.operation for violation in certificate.violations), certificate


def test_every_violation_is_named_not_only_the_first():
    network = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6))
    assert [violation.path for violation in certify(network, vector()).violations] == ["1", "3", "4"]


@pytest.mark.parametrize(
    "function",
    [lambda x: x if x.sum() > 0 else -x, lambda x: x * x.max().item(), lambda x: x[: int(x.sum().item())]],
)
def test_data_dependent_control_flow(function):
    certificate = certify(Function(function), vector())
    assert not certificate.polynomial
    assert certificate.degree is None


def test_control_flow_is_located_and_hides_nothing():
    chooses = Function(lambda x: x if x.sum() > 0 else -x)
    network = nn.Sequential(
        nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), chooses), nn.ReLU(), CCP(6, 2, rank=3, order=2)
    )
    certificate = certify(network, vector())
    assert [(found.path, found.module) for found in certificate.violations] == [("1.1", "Function"), ("2", "ReLU")]
    assert "control flow" in str(certificate)


def test_an_empty_batch_says_nothing_of_the_degree():
    with pytest.raises(ValueError, match=r"must have elements, got shape \(0, 4\)"):
        certify(CCP(4, 3, rank=3, order=2), torch.randn(0, 4))


@pytest.mark.parametrize("exponent", [float("nan"), float("inf"), 2.5, -1])
def test_exponents_that_give_no_polynomial(exponent):
    certificate = certify(Function(lambda x: x**exponent), vector())
    assert "only whole numbers" in str(certificate)


def overwritten_column(x):
    out = x.clone()
    out[:, 0] = x[:, 1] * x[:, 2]
    return out


def overwritten_by_a_constant(x):
    out = x * x
    out[:] = 3.0
    out[:, 1:3] = x[:, :2]
    return out


def overwritten_by_positions(x):
    out = torch.zeros_like(x)
    out[:, [0, 2]] = x[:, :2] ** 3
    return out + x


@pytest.mark.parametrize(
    ("function", "degree"),
    [
        (lambda x: x * 0 + 3, 0),
        (lambda x: torch.ones_like(x), 0),
        (lambda x: x, 1),
        (lambda x: x / 3 - 1, 1),
        (lambda x: 5 - x, 1),
        (lambda x: x**3, 3),
        (lambda x: x.square() * x, 3),
        (lambda x: x.prod(dim=1), 6),
        (lambda x: x @ x.T @ x, 3),
        (lambda x: torch.einsum("bi,bj->bij", x, x), 2),
        (lambda x: torch.addcmul(x, x, x), 2),
        (lambda x: torch.cat([x, x * x], dim=1).chunk(2, dim=1)[1] * x, 3),
        (lambda x: torch.cat([x, x * x], dim=1)[:, :6], 1),
        (lambda x: torch.stack([x, x * x]).unbind()[0], 1),
        (lambda x: F.pad(x, (1, 2), value=4.0), 1),
        (lambda x: x.masked_fill(torch.arange(6) > 3, 2.0), 1),
        (lambda x: torch.where(torch.arange(6) > 3, x * x, x), 2),
        (lambda x: x.flip(1).roll(1, 1).cumsum(1) * x[:, [0, 0, 1, 1, 2, 2]], 2),
        (lambda x: (x + 1) ** 2 - x * x, 1),  # the squares cancel
        (lambda x: (x + x.flip(1)) ** 2 - x * x - 2 * x * x.flip(1) - x.flip(1) ** 2 + x, 1),  # to rounding
        (lambda x: x.double().float() * x, 2),
        (lambda x: x.bfloat16() * x.bfloat16(), 2),
        (overwritten_column, 2),
        (overwritten_by_a_constant, 1),
        (overwritten_by_positions, 3),
    ],
)
def test_degrees_of_functions(function, degree):
    certificate = certify(Function(function), vector())
    assert certificate.polynomial, certificate
    assert certificate.degree == degree, certificate


def test_memory_that_is_overwritten_may_hold_anything():
    def columns(x):
        out = torch.empty_like(x)
        out[:, ::2], out[:, 1::2] = x[:, 1::2], x[:, ::2] * x[:, 1::2]
        return out

    torch.use_deterministic_algorithms(True)  # which fills such memory with NaN
    try:
        assert certify(Function(columns), vector()).degree == 2
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_scale_of_zero_does_not_count():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = nn.Parameter(torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.alpha * (x * x)

    network = Scaled()
    assert certify(network, vector()).degree == 1
    nn.init.constant_(network.alpha, 1e-30)
    assert certify(network, vector()).degree == 2


def test_power_sum_with_instance_norm_is_not_a_polynomial_and_with_batch_norm_is():
    z = torch.randn(2, 4, 9)
    assert not certify(PowerSum(3, norm=lambda: nn.InstanceNorm1d(4)), z).polynomial
    assert certify(PowerSum(3, norm=lambda: nn.BatchNorm1d(4)), z).degree == 3


def test_a_change_of_precision_is_no_change_of_the_function():
    class Cast(nn.Module):
        def forward(self, x):
            return x.double().square().sum(1, dtype=torch.float64).float()

    certificate = certify(Cast(), torch.randn(1, 4))
    assert (certificate.polynomial, certificate.degree) == (True, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_part_in_less_precision_is_told_and_no_change_of_the_function(dtype):
    certificate = certify(Function(lambda x: (x.to(dtype).square() + 1).to(x.dtype) * x), torch.randn(1, 4).double())
    assert (certificate.polynomial, certificate.degree) == (True, 3)
    assert f"not checked along a line: parts of the network compute in {dtype}" in "".join(certificate.notes)


@pytest.mark.parametrize("function", [lambda x: x.sum(1, dtype=torch.int64), lambda x: x.view(torch.int32)])
def test_what_rounds_is_not_a_polynomial(function):
    violation, *_ = certify(Function(function), torch.randn(1, 4)).violations
    assert "rounds to torch.int" in violation.reason


def test_several_inputs():
    class Bilinear(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y + x

    assert certify(Bilinear(), (vector(), vector())).degree == 2


def test_certificate_reads_well():
    text = str(certify(nn.Sequential(CCP(6, 4, rank=5, order=3), nn.MaxPool1d(2)), vector()))
    assert text == (
        "not a polynomial: 1 operation in the way\n"
        "  - 1 (MaxPool1d): max_pool1d takes a maximum; average pooling is linear"
    )
    assert str(certify(CCP(6, 4, rank=5, order=3), vector())).startswith("a polynomial of degree 3\n")


def test_bad_examples():
    layer = CCP(6, 4, rank=5, order=3)
    with pytest.raises(TypeError, match=r"floating-point type, got torch\.int64"):
        certify(layer, torch.ones(2, 6, dtype=torch.long))
    with pytest.raises(ValueError, match="1 of 12 values that are NaN or infinite"):
        certify(
            layer,
            vector()
            .index_fill(1, torch.tensor([0]), 1.0)
            .index_put((torch.tensor(0), torch.tensor(1)), torch.tensor(torch.nan)),
        )
    with pytest.raises(ValueError, match="expects 6 features"):
        certify(layer, vector(5))
    with pytest.raises(ValueError, match="must have values, got a tensor on the meta device"):
        certify(CCP(6, 4, rank=5, order=3, device="meta"))
    with pytest.raises(TypeError, match="got list"):
        certify(layer, [[1.0]])  # type: ignore[arg-type]


def test_the_example_may_be_told_from_a_first_linear_layer():
    assert certify(nn.Sequential(CCP(6, 4, rank=5, order=3), PowerSum(2)).double()).degree == 6
    with pytest.raises(ValueError, match="the shape of the input cannot be told from the network; give an example"):
        certify(nn.Conv2d(3, 3, 1))


def test_what_is_exact_for_polynomials_only_refuses_the_rest():
    with pytest.raises(NotPolynomialError, match=r"1 \(ReLU\): relu is piecewise linear"):
        orders(nn.Sequential(nn.Linear(6, 4), nn.ReLU()), vector())


def test_an_activation_that_zero_weights_hide_is_found():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.hidden = nn.Linear(3, 3), nn.Linear(3, 3)
            nn.init.zeros_(self.hidden.weight)

        def forward(self, x):
            return self.seen(x) + torch.relu(self.hidden(x))

    certificate = certify(Hidden(), torch.randn(1, 3))
    assert not certificate.polynomial
    assert [violation.operation for violation in certificate.violations] == ["relu"]


def test_terms_that_all_cancel():
    class Cancelling(nn.Module):
        def forward(self, x):
            return (x + 1) ** 2 - x**2 - 2 * x - 1

    certificate = certify(Cancelling(), torch.randn(1, 3))
    assert certificate.polynomial
    assert certificate.degree == 0


def test_logging_stays_as_it_was():
    import logging

    logging.disable(logging.INFO)
    try:
        certify(nn.Linear(3, 2), torch.randn(1, 3))
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("where, value", [("steps.0.gate.weight", torch.nan), ("head.bias", torch.inf)])
def test_a_network_that_diverged_is_refused_by_the_name_of_its_weights(where, value):
    layer = CCP(6, 2, rank=3, order=3)
    layer.get_parameter(where).data.view(-1)[0] = value
    with pytest.raises(ValueError, match=rf"{where} must be finite, got 1 of"):
        certify(layer, vector())


def test_values_too_large_for_the_line_are_told():
    layer = CCP(6, 2, rank=3, order=8).double()
    for parameter in layer.parameters():
        parameter.data *= 1e60
    certificate = certify(layer, vector().double())
    assert certificate.degree == 8
    assert any("too large for double precision" in note for note in certificate.notes)


def test_rounding_in_one_output_does_not_hide_a_term_of_another():
    def outputs(x):
        y = 1.1e4 * x
        return torch.cat([1e6 * x, (y * y) * y * 0.1 * 10 - y * y * y, 1e-4 * x**3], 1)

    x = torch.tensor([[1.5]], dtype=torch.float64)
    assert certify(Function(outputs), x).degree == 3
    torch.testing.assert_close(orders(Function(outputs), x).sum(0), outputs(x))


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: torch.zeros(x.shape, dtype=torch.long).copy_(3 * x).float() + x**33, "rounds to torch.int64"),
        (lambda x: x**33 + torch.randn(6), "randn draws random numbers"),
        (lambda x: x * 1j, "complex numbers"),
    ],
)
def test_what_no_line_would_find_at_high_degrees(function, reason):
    certificate = certify(Function(function), vector())
    assert not certificate.polynomial
    assert reason in str(certificate)


def test_what_is_not_known_is_not_called_wrong():
    unknown = torch.special.bessel_j0
    assert str(certify(Function(unknown), vector())).startswith("not known to be a polynomial: 1 op")
    assert str(certify(Function(lambda x: unknown(x).relu()), vector())).startswith("not a polynomial: 2 op")


@pytest.mark.parametrize("pack", [lambda y: {"y": y}, lambda y: (y, None), lambda y: [y, {"more": (y + 1,)}]])
def test_outputs_in_any_packing(pack):
    assert certify(Function(lambda x: pack(x * x)), vector()).degree == 2


def test_an_input_that_does_not_fit_is_one_error_and_no_page_of_log(capfd):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        certify(nn.Linear(3, 2), vector())
    assert capfd.readouterr() == ("", "")


class ThroughNumpy(nn.Module):
    def forward(self, z):
        return torch.from_numpy(2 * z.detach().numpy())


@pytest.mark.parametrize("model", [ThroughNumpy(), nn.LazyLinear(4), nn.Sequential(nn.Linear(4, 4), ThroughNumpy())])
def test_what_cannot_be_traced_is_not_called_wrong(model):
    found = str(certify(model, torch.randn(2, 4)))
    assert found.startswith("not known to be a polynomial: 1 operation in the way")
    assert "tracing failed, so nothing can be said" in found


@pytest.mark.parametrize(
    "model, reason",
    [
        (nn.GRU(4, 4), "gru has sigmoids and tanhs"),
        (nn.LSTM(4, 4), "lstm has sigmoids and tanhs"),
        (nn.RNN(4, 4), "rnn_tanh has tanhs"),
        (nn.RNN(4, 4, nonlinearity="relu"), "rnn_relu has relus"),
        (nn.TransformerEncoderLayer(4, 1, 8), "scaled_dot_product_attention has a softmax"),
    ],
)
def test_what_could_draw_random_numbers_and_does_not_has_its_true_reason(model, reason):
    found = str(certify(model, torch.randn(2, 3, 4)))
    assert reason in found
    assert "random" not in found


def test_a_long_degree_is_also_shown_as_a_power():
    assert str(Certificate(True, 2**70, bound=2**70)).splitlines()[0] == f"a polynomial of degree {2**70} = 2^70"
    assert str(Certificate(True, None, bound=3 * 2**20)) == f"a polynomial of degree at most {3 * 2**20} = 3·2^20"
    assert str(Certificate(True, 256, bound=256)) == "a polynomial of degree 256"
    form = torch.ones(1)  # values that no float can compare differ
    assert not _same_form([Leading(3, form)], [Leading(3, form, exponent=5000)], 3)
    assert not _same_form([Leading(2**1100, form)], [Leading(2**1100, form)], 2**1100)
