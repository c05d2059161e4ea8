"""SNGAN: the sizes known, and the polynomial as what it adds to the baseline."""

from __future__ import annotations

import pytest
import torch

from pinets import NCP
from pinets.models import create_model
from pinets.polynomial import Polynomial

SIZES = {
    "sngan_generator": 4_276_739,
    "sngan_discriminator": 1_053_824,
    "sngan_ncp_generator": 4_375_811,
    # a view of the noise, a matrix with a bias on the state, both 128 by 128, and alpha
    "sngan_prodpoly_generator": 4_375_811 + 2 * 128 * 128 + 128 + 1,
}


@pytest.mark.parametrize("name, size", SIZES.items())
def test_sizes(name, size):
    with torch.device("meta"):
        model = create_model(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == size


def test_ncp_with_gates_of_one_is_the_baseline():
    baseline = create_model("sngan_generator", width=8, latent=6).eval()
    ncp = create_model("sngan_ncp_generator", width=8, latent=6).eval()
    start, *blocks, head = baseline.network
    ncp.network.start.load_state_dict(start.state_dict())
    ncp.network.head.load_state_dict(head.state_dict())
    for step, block in zip(ncp.network.steps, blocks, strict=True):
        step.body.load_state_dict(block.state_dict())
    z = torch.randn(4, 6)
    assert not torch.allclose(ncp(z), baseline(z), atol=1e-3)
    with torch.no_grad():
        for step in ncp.network.steps:
            step.gate[0].weight.zero_()
    assert torch.allclose(ncp(z), baseline(z), atol=1e-6)


def test_each_block_is_one_order_and_prodpoly_a_product():
    ncp = create_model("sngan_ncp_generator", width=4, latent=6).network
    assert isinstance(ncp, Polynomial)
    assert ncp.order == 4
    first, second = create_model("sngan_prodpoly_generator", width=4, latent=6).network
    assert (first.order, second.order) == (2, 4)


def test_the_product_starts_as_the_single_polynomial_and_can_leave_it():
    single = create_model("sngan_ncp_generator", width=4, latent=6).eval()
    product = create_model("sngan_prodpoly_generator", width=4, latent=6).eval()
    first, second = product.network
    second.load_state_dict(single.network.state_dict())
    z = torch.randn(8, 6)
    assert torch.equal(product(z), single(z))
    product(z).square().sum().backward()
    step = first.steps[0]
    assert step.norm.alpha.grad.abs() > 0
    with torch.no_grad():
        step.norm.alpha.fill_(0.5)
    expected = z + 0.5 * (z @ step.gate.weight.T) * (z @ step.body.weight.T + step.body.bias)
    torch.testing.assert_close(first(z), expected)


def test_the_first_polynomial_keeps_the_rank_of_the_noise():
    """(tr C)^2 / tr C^2 of the covariance C, which an NCP of order 2 brings from 64 down to about 20."""

    def effective_rank(x):
        covariance = torch.cov(x.T)
        return (covariance.trace() ** 2 / covariance.square().sum()).item()

    z = torch.randn(20_000, 64)
    first = create_model("sngan_prodpoly_generator", width=4, latent=64).network[0]
    with torch.no_grad():
        assert effective_rank(first(z)) == pytest.approx(effective_rank(z), rel=1e-5)
        assert effective_rank(NCP(64, 64, rank=64, order=2)(z)) < 30


def test_the_generators_keep_their_scale():
    """Gates around one: the polynomials begin with images of the baseline's contrast."""
    z = torch.randn(64, 128)
    stds = [create_model(name, width=32).network(z).std() for name in SIZES if name.endswith("generator")]
    assert max(stds) < 1.5 * min(stds)


def test_the_discriminator_is_normalised_and_takes_any_size():
    network = create_model("sngan_discriminator", width=8, channels=1).train()
    for _ in range(200):  # of the power iteration
        scores = network(torch.randn(2, 1, 16, 16))
    assert scores.shape == (2,)
    weights = [module.weight for module in network.modules() if hasattr(module, "parametrizations")]
    assert len(weights) == 4 * 2 + 2 + 1  # two in each of four blocks, two shortcuts, the last layer
    for weight in weights:
        assert torch.linalg.matrix_norm(weight.flatten(1), ord=2).item() == pytest.approx(1, abs=0.02)
    assert network(torch.randn(2, 1, 64, 64)).shape == (2,)
