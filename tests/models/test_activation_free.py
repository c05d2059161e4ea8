"""Generators without activations: the paper's equations, certified, and of comparable size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from pinets.algebra import certify
from pinets.models import create_model

SINGLE = ["ccp_generator", "ncp_generator", "ncp_skip_generator"]


def settled(name, **arguments):
    """A small generator whose batch norms have seen something, and whose parameters are all in use."""
    generator = create_model(name, **{"size": 16, "width": 4, "latent": 5, **arguments}).double()
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for _ in range(20):
            generator(torch.randn(16, 5, dtype=torch.float64))
    return generator.eval()


def on_meta(name, **arguments):
    with torch.device("meta"):
        return create_model(name, **arguments)


def size(name, **arguments):
    return sum(parameter.numel() for parameter in on_meta(name, **arguments).parameters())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", SINGLE)
def test_everything_before_the_tanh_is_a_polynomial_of_the_order(name, channels):
    generator = settled(name, channels=channels)
    certificate = certify(generator.network, torch.randn(1, 5, dtype=torch.float64))
    assert certificate.polynomial, str(certificate)
    assert certificate.degree == 4
    z = torch.randn(2, 5, dtype=torch.float64)
    assert torch.allclose(generator(z), torch.tanh(generator.network(z)), atol=1e-6)


@pytest.mark.parametrize("image, degree", [(32, 6), (64, 8)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", [*SINGLE, "linear_generator", "prodpoly_generator"])
def test_images_of_both_sizes_and_kinds(name, image, degree, channels):
    generator = create_model(name, size=image, channels=channels, width=4, latent=8).eval()
    images = generator(torch.randn(2, 8))
    assert images.shape == (2, channels, image, image)
    assert images.abs().max() <= 1
    if name in SINGLE:
        assert certify(generator.network, torch.randn(1, 8)).bound == degree


def test_the_published_product_of_polynomials():
    assert size("prodpoly_generator") == 5_015_425
    generator = create_model("prodpoly_generator", width=2, latent=4).double().eval()
    certificate = certify(generator.network, torch.randn(1, 4, dtype=torch.float64))
    assert certificate.polynomial, str(certificate)
    assert certificate.bound == 1 * 3 * 9 * 2


def test_the_three_models_have_comparable_sizes():
    sizes = [size(name) for name in SINGLE]
    assert max(sizes) < 1.2 * min(sizes)


def enlarged(z, gate, side):
    """A gate: the affine map of the noise to 4x4, enlarged."""
    linear = gate[0]
    return F.interpolate((z @ linear.weight.T + linear.bias).view(len(z), -1, 4, 4), size=side, mode="bilinear")


@pytest.mark.parametrize("skip", [False, True])
def test_ncp_is_the_papers_equation(skip):
    generator = settled("ncp_skip_generator" if skip else "ncp_generator")
    z = torch.randn(3, 5, dtype=torch.float64)
    network = generator.network
    x = (z @ network.start[0].weight.T).view(3, 16, 4, 4)
    strides = [2, 1, 2]
    for step, stride in zip(network.steps, strides, strict=True):
        norm, mix, bias = step.body
        mean, deviation = norm.running_mean.view(-1, 1, 1), (norm.running_var + norm.eps).sqrt().view(-1, 1, 1)
        y = (x - mean) / deviation * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)
        convolve = F.conv_transpose2d if stride == 2 else F.conv2d
        y = convolve(y, mix.weight, stride=stride, padding=1) + bias.bias
        new = torch.einsum("nchw,nchw->nchw", enlarged(z, step.gate, y.shape[-1]), y)
        if skip:
            carried = step.carry["state"]
            new = new + convolve(x, carried.weight, stride=stride, padding=0)
        x = new
    norm, last = network.head
    x = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
    torch.testing.assert_close(network(z), F.conv2d(x, last.weight, last.bias, padding=1))


def test_ccp_is_the_papers_equation():
    network = settled("ccp_generator").network
    z = torch.randn(3, 5, dtype=torch.float64)
    factors = [1 + z @ step.gate.weight.T for step in network.steps]
    x = (z @ network.start.weight.T) * torch.stack(factors).prod(dim=0)
    _, up, last = network.head
    x = F.conv_transpose2d(x.view(3, 6, 8, 8), up.weight, up.bias, stride=2, padding=1)
    torch.testing.assert_close(network(z), F.conv2d(x, last.weight, last.bias, padding=1))


def test_without_products_what_is_left_is_linear():
    network = settled("linear_generator").network
    x, y = torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(network(x + y) + network(torch.zeros_like(x)), network(x) + network(y))
    kept = set(on_meta("ncp_generator").network.head.state_dict())
    assert kept == set(on_meta("linear_generator").network[-1].state_dict())


@pytest.mark.parametrize("name", [*SINGLE, "linear_generator"])
def test_images_begin_within_the_linear_part_of_the_tanh(name):
    network = create_model(name, width=16).train().network
    images = network(torch.randn(256, 128))
    assert 0.15 < images.std() < 0.6
    assert images.abs().median() < 0.5


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"size": 48}, "size must be a power of two from 8 on, got 48"),
        ({"size": 4}, "from 8 on, got 4"),
        ({"channels": 0}, "channels must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        create_model("ncp_generator", **arguments)


def test_noise_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"noise of shape \(N, 8\), got \(2, 9\)"):
        create_model("ncp_generator", latent=8, width=4)(torch.randn(2, 9))
