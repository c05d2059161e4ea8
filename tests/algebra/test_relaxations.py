"""Bounds by linear functions found backwards, and by Shor's relaxation, against what corners reach."""

from __future__ import annotations

import torch
from torch import nn

from pinets import CCP, NCP
from pinets.algebra import ball, bounds, interval_bounds
from tests.algebra.networks import CONV


class Quadratic(nn.Module):
    def forward(self, x):
        return x[:, :1] + x[:, :1] ** 2 - x[:, 1:]


def test_networks_too_large_for_zonotopes_are_bounded_much_better_than_by_intervals(monkeypatch):
    """Linear functions found backwards are near what corners of the box reach."""
    torch.manual_seed(0)
    model = nn.Sequential(NCP(1, 4, rank=4, order=3, op=CONV), NCP(4, 4, rank=4, order=3, op=CONV), nn.Flatten())
    model = nn.Sequential(model, nn.Linear(256, 3)).eval()
    image = torch.rand(1, 1, 8, 8)
    lower, upper = ball(image, 1e-3)
    monkeypatch.setattr("pinets.algebra.enclosure._LARGEST", 1)
    found, plain = bounds(model, lower, upper), interval_bounds(model, lower, upper)
    slope = torch.func.jacrev(lambda x: model(x)[0])(image)[:, 0]
    corners = torch.cat([image + 1e-3 * sign * slope.sign() for sign in (-1, 1)])  # nearly the least and the largest
    with torch.no_grad():
        outputs = model(corners.clamp(lower.float(), upper.float())).double()
    assert (outputs >= found.lower).all()
    assert (outputs <= found.upper).all()
    assert (found.width < 1.5 * (outputs.amax(0) - outputs.amin(0))).all()
    assert (found.width < 0.01 * plain.width).all()


def test_quadratic_networks_of_few_inputs_are_bounded_nearly_exactly():
    """Shor's relaxation: x + x**2 - y over [-1, 1] x [0, 1] is from -1/4 - 1 to 2."""
    model = Quadratic()
    found = bounds(model, torch.tensor([[-1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    assert -1.255 < found.lower.item() <= -1.25
    assert 2 <= found.upper.item() < 2.005
    torch.manual_seed(0)
    network, x = CCP(6, 3, rank=4, order=2), torch.randn(1, 6)
    lower, upper = ball(x, 0.3)
    corners = (lower + (upper - lower) * torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 6)).float()
    with torch.no_grad():
        reached = network(corners).double()
    tight, plain = bounds(network, lower, upper), interval_bounds(network, lower, upper)
    assert (tight.lower <= reached.amin(0)).all()
    assert (tight.upper >= reached.amax(0)).all()
    assert (tight.width < 1.1 * (reached.amax(0) - reached.amin(0))).all()
    assert (tight.width < 0.7 * plain.width).all()
