"""SNGAN: the sizes known, and the polynomial as what it adds to the baseline."""

from __future__ import annotations

import pytest
import torch

from pinets.models import create_model
from pinets.polynomial import Polynomial

SIZES = {
    "sngan_generator": 4_276_739,
    "sngan_discriminator": 1_053_824,
    "sngan_ncp_generator": 4_375_811,
    # two views of the noise, a matrix with a bias on the state and one at the end, all 128 by 128
    "sngan_prodpoly_generator": 4_375_811 + 4 * 128 * 128 + 2 * 128,
}


@pytest.mark.parametrize("name, size", SIZES.items())
def test_sizes(name, size):
    assert sum(parameter.numel() for parameter in create_model(name, device="meta").parameters()) == size


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
