import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, orders
from pinets.layers.bias import factor_bias
from pinets.layers.initialization import degree_shares, fan_in, nested_variances
from pinets.testing import assert_variance_preserved

MODELS = [CCP, NCP, NCPSkip]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("width", "batch"), [(64, 4096), (256, 2048), (1024, 512)])
def test_variance_is_preserved_for_every_order(model, width, batch):
    z = normal(batch, width)
    for order in (1, 2, 4, 8, 16):
        torch.manual_seed(order)
        assert_variance_preserved(model(width, width, rank=width, order=order), z)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sizes", [(784, 10, 64), (64, 256, 1024), (1024, 64, 256)])
def test_variance_is_preserved_where_the_sizes_differ(model, sizes):
    features, outputs, rank = sizes
    for order in (2, 4, 8):
        torch.manual_seed(order)
        assert_variance_preserved(model(features, outputs, rank=rank, order=order), normal(2048, features))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [1, 2, 4, 16])
def test_every_degree_carries_its_share(model, order):
    torch.manual_seed(0)
    layer = model(64, 64, rank=128, order=order)
    parts = orders(layer, normal(2048, 64))[1:].flatten(1).var(dim=1)
    for degree, (share, expected) in enumerate(zip(parts / parts.sum(), degree_shares(order), strict=True), start=1):
        # high degrees have heavy tails: a sample misses some of their variance
        assert share > (0.5 if degree <= 8 else 0.1) * expected, (degree, share, expected)


@pytest.mark.parametrize("model", MODELS)
def test_uniform_input_is_preserved_too(model):
    torch.manual_seed(0)
    z = (2 * torch.rand(4096, 256, generator=torch.Generator().manual_seed(0)) - 1) * 3**0.5
    assert_variance_preserved(model(256, 256, rank=256, order=8), z)


@pytest.mark.parametrize("skip", [0.0, 0.5])
@pytest.mark.parametrize("order", [1, 2, 5, 16])
def test_nested_variances_multiply_up_to_the_wanted_shares(skip, order):
    """D_n = (s t + v) D_(n-1) + beta t, multiplied out, gives the shares (for very wide input)."""
    first, steps = nested_variances(order, features=10**9, skip=skip)
    coefficients = [first]
    for step in steps:
        raised = [step.bias] + [step.body * value for value in coefficients]
        kept = [step.skip * value for value in coefficients] + [0.0]
        coefficients = [a + b for a, b in zip(raised, kept, strict=True)]
    assert coefficients == pytest.approx(degree_shares(order), rel=1e-6)
    assert all(min(step.body, step.bias, step.skip) >= 0 for step in steps)


@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_an_order_whose_moments_exceed_all_floats_is_refused(skip):
    first, steps = nested_variances(150, features=1, skip=skip)
    assert first > 0
    assert all(step.body > 0 for step in steps)
    with pytest.raises(ValueError, match=r"order 200 is too high for 1 features: E \|z\|\^400"):
        nested_variances(200, features=1, skip=skip)


@pytest.mark.parametrize("model", MODELS)
def test_assertion_notices_a_bad_start(model):
    layer = model(64, 64, rank=64, order=4)
    for parameter in layer.parameters():
        if parameter.ndim == 2:
            nn.init.kaiming_uniform_(parameter, a=5**0.5)  # what nn.Linear does by itself
    with pytest.raises(AssertionError, match="variance"):
        assert_variance_preserved(layer, normal(1024, 64))


def test_assertion_notices_a_missing_degree():
    layer = NCP(64, 64, rank=64, order=2)
    nn.init.zeros_(layer.steps[0].body.bias)  # without it there is no first degree
    nn.init.normal_(layer.steps[0].body.weight, std=64**-0.5)
    with pytest.raises(AssertionError, match="degree 1 carries 0"):
        assert_variance_preserved(layer, normal(1024, 64), factor=4, min_share=0.01)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (nn.Linear(7, 3), 7),
        (nn.Conv2d(4, 8, 3), 36),
        (nn.Conv2d(4, 8, 3, groups=2), 18),
        (nn.ConvTranspose2d(4, 8, 4, stride=2), 16),
        (nn.Conv1d(2, 5, 5), 10),
    ],
)
def test_fan_in(operator, expected):
    assert fan_in(operator) == expected


@pytest.mark.parametrize("model", MODELS)
def test_convolutions_preserve_variance(model):
    torch.manual_seed(0)
    layer = model(
        16,
        16,
        rank=64,
        order=3,
        op=lambda *a, **k: nn.Conv2d(*a, kernel_size=3, padding=1, padding_mode="circular", **k),
    )
    assert_variance_preserved(layer, normal(64, 16, 12, 12))


def test_factored_bias_starts_with_the_same_variance():
    torch.manual_seed(0)
    plain = NCP(64, 64, rank=1024, order=4).steps[-1].body.bias
    factored = NCP(64, 64, rank=1024, order=4, bias_size=32).steps[-1].body.bias
    assert factored.std().item() == pytest.approx(plain.std().item(), rel=0.1)


def test_factoring_a_bias_keeps_the_function_and_it_can_be_set_where_it_can_be_made():
    torch.manual_seed(0)
    operator, x = nn.Linear(4, 3), torch.randn(5, 4)
    expected = operator(x)
    factored = factor_bias(operator, size=2)
    torch.testing.assert_close(factored(x), expected)
    before = factored.bias.detach().clone()
    factored.bias = 2 * before
    torch.testing.assert_close(factored.bias, 2 * before)
    with pytest.raises(ValueError, match="a bias of 3 numbers factored through 2 cannot take this value"):
        factored.bias = torch.tensor([5.0, 6.0, 7.0])


def test_a_factored_bias_of_complex_numbers_can_be_set():
    layer = NCP(4, 3, rank=5, order=2, bias_size=5, dtype=torch.complex64)
    wanted = torch.randn(5, dtype=torch.complex64)
    layer.steps[0].body.bias = wanted
    torch.testing.assert_close(layer.steps[0].body.bias, wanted, rtol=1e-3, atol=1e-3)
