"""Bounds for training must be below every margin, agree with those of proofs, and have gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets import CCP, NCP
from pinets.algebra import ball, interval_bounds, margins
from pinets.algebra.trainable import MarginBound
from pinets.models import create_model

NETWORKS = {
    "CCP": lambda: (CCP(6, 3, rank=4, order=3), (6,)),
    "NCP": lambda: (NCP(6, 3, rank=4, order=3), (6,)),
    "convolutional": lambda: (create_model("strict_convnet", widths=(3, 4), in_channels=1, num_classes=3), (1, 4, 4)),
}


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_margin_in_the_ball_is_above_the_bound(name, linear):
    torch.manual_seed(0)
    network, shape = NETWORKS[name]()
    network.eval()
    x, labels, eps = torch.randn(4, *shape), torch.tensor([0, 1, 2, 0]), 0.05
    found = MarginBound(network, x, linear=linear)(network, x - eps, x + eps, labels)
    points = x + eps * (2 * torch.rand(300, *x.shape) - 1).sign()
    with torch.no_grad():
        outputs = network(points.flatten(0, 1)).unflatten(0, points.shape[:2])
    gaps = outputs.gather(2, labels.expand(300, -1)[..., None]) - outputs
    assert (gaps >= found - 1e-5).all()
    assert (found.gather(1, labels[:, None]) == 0).all()
    proven = margins(network, *ball(x, eps), labels)
    assert (proven >= found - 1e-4 * proven.abs().max()).all()  # proofs are at least as tight, up to rounding
    if not linear:
        plain = interval_bounds(network, *ball(x, eps), precision=None)
        apart = (plain.lower.gather(1, labels[:, None]) - plain.upper).float()
        others = found != 0
        torch.testing.assert_close(found[others], apart[others], rtol=1e-4, atol=1e-4)


def test_gradients_reach_all_weights_and_enlarge_the_margins():
    torch.manual_seed(0)
    network, x = nn.Sequential(CCP(6, 4, rank=4, order=2), nn.Linear(4, 3)), torch.randn(8, 6)
    labels, bound = torch.randint(3, (8,)), MarginBound(network, x)

    def loss():
        return nn.functional.cross_entropy(-bound(network, x - 0.1, x + 0.1, labels), labels)

    before = loss()
    before.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter -= 1e-3 * parameter.grad
    assert loss() < before
