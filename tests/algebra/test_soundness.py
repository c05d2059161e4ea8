"""Networks and boxes made to break proofs: rounding that cancels, thousands of boxes, and a bug planted on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum
from pinets.algebra import Traced, ball, bounds, trace, verify
from pinets.algebra.domains.rounding import Rounding

INPUTS, UNITS = 6, 8


class Absorbing(nn.Module):
    """Large numbers that cancel, so that a small margin is lost in their rounding (after arXiv 2506.01054)."""

    def __init__(self):
        super().__init__()
        self.body, self.gate = nn.Linear(INPUTS, UNITS), nn.Linear(INPUTS, UNITS)
        self.head = nn.Linear(UNITS, 2)

    def forward(self, x):
        return self.head(self.body(x) * self.gate(x))

    @torch.no_grad()
    def draw(self, generator):
        """Weights for which the margin of output 0 at the input 0 is a few roundings of the largest product."""

        def normal(*shape):
            return torch.randn(*shape, generator=generator)

        for layer in (self.body, self.gate, self.head):
            layer.weight.copy_(normal(*layer.weight.shape))
        large = 10 ** (6 * torch.rand(1, generator=generator))
        self.body.bias.copy_(large * normal(UNITS))
        self.gate.bias.copy_(1 + 0.1 * normal(UNITS))
        state = self.body.bias.double() * self.gate.bias.double()
        weight = self.head.weight.double()
        weight[0, -1] += (weight[1] - weight[0]) @ state / state[-1]  # the large numbers cancel, up to rounding
        self.head.weight.copy_(weight)
        rounded = self.head.weight.double()
        lift = large * 2.0**-24 * 10 ** (2 * torch.rand(1, generator=generator) - 1)
        self.head.bias.copy_(torch.stack([lift[0] - (rounded[0] - rounded[1]) @ state, torch.zeros(())]))


def with_weights(traced, model):
    """The traced network with the weights of another of the same kind: tracing a thousand would take minutes."""
    constants = {f"p_{name.replace('.', '_')}": value.detach() for name, value in model.named_parameters()}
    assert constants.keys() == traced.graph.constants.keys()
    return Traced(model, traced.example, replace(traced.graph, constants=constants))


def attack_by_rounding(monkeypatch, count):
    """How many networks single precision gets wrong where exact arithmetic does not, and how many false proofs."""
    monkeypatch.setattr("pinets.algebra._verify.find_counterexample", lambda *_, **__: None)  # proofs alone
    generator = torch.Generator().manual_seed(0)
    traced = trace(Absorbing())
    broken, false, proven = 0, 0, 0
    for _ in range(count):
        model = Absorbing().eval()
        model.draw(generator)
        lower, upper = ball(torch.zeros(1, INPUTS), 10 ** (-9 + 3 * float(torch.rand(1, generator=generator))))
        (verdict,) = verify(with_weights(traced, model), lower, upper, [0], seconds=1e-6)
        corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * INPUTS)
        points = (lower + (upper - lower) * corners).float()
        with torch.no_grad():
            rounded = torch.cat([model(points), *(model(point[None]) for point in points[::9])])
            exact = model.double()(points.double())
        wrong = bool((rounded[:, 0] <= rounded[:, 1]).any())
        broken += wrong and bool((exact[:, 0] > exact[:, 1]).all())
        false += wrong and verdict.status == "proven"
        proven += verdict.status == "proven"
    return broken, false, proven


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_networks_built_to_leave_their_bounds_by_rounding_are_not_proven(monkeypatch, count):
    broken, false, _ = attack_by_rounding(monkeypatch, count)
    assert broken > count / 20, "the networks must be able to break proofs that ignore rounding"
    assert false == 0


def test_the_same_networks_break_proofs_that_forget_rounding(monkeypatch):
    """The planted bug: operations of the network are taken to be exact."""
    monkeypatch.setattr("pinets.algebra.enclosure.Rounding.of", lambda dtype: Rounding(2.0**-51, 1e-300, 1e300))
    _, false, proven = attack_by_rounding(monkeypatch, 20)
    assert proven > false > 0


FUZZED = {
    "CCP": lambda: CCP(4, 3, rank=4, order=4),
    "NCP": lambda: NCP(4, 3, rank=4, order=3),
    "NCP-Skip": lambda: NCPSkip(4, 3, rank=4, order=3),
    "a product": lambda: nn.Sequential(CCP(4, 4, rank=3, order=2), NCP(4, 2, rank=3, order=2)),
    "powers": lambda: nn.Sequential(nn.Linear(4, 3), PowerSum(3)),
}


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("boxes", [20, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUZZED)
def test_all_corners_of_many_boxes_are_within_the_bounds(name, boxes, precision):
    """Ten times 2,000 boxes, whose centres and radii are of many sizes."""
    torch.manual_seed(boxes)
    model = FUZZED[name]().eval().to(precision)
    centre = torch.randn(boxes, 4, dtype=precision) * 10 ** torch.empty(boxes, 1).uniform_(-2, 2)
    radius = centre.double().abs().amax(1, keepdim=True) * 10 ** torch.empty(boxes, 1).uniform_(-9, 0).double()
    lower, upper = centre.double() - radius, centre.double() + radius
    found = bounds(trace(model, centre[:1]), lower, upper, precision=precision)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 4)
    places = torch.cat([corners, torch.rand(48, 4, dtype=torch.float64)])[:, None]
    points = (lower + (upper - lower) * places).to(precision)
    with torch.no_grad():
        outputs = model(points.reshape(-1, 4)).double().reshape(len(places), boxes, -1)
    assert (outputs >= found.lower).all()
    assert (outputs <= found.upper).all()
