from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import bounds as bench
from benchmarks.rows import Row


def linear(weight, bias):
    network = nn.Linear(4, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor(weight))
        network.bias.copy_(torch.tensor(bias))
    return network


def test_an_attack_on_a_linear_network_succeeds_exactly_where_its_margin_ends():
    """The margin is the sum of four pixels minus 2; at 0.75 each it is 1, and falls by 4 eps."""
    network = linear([[1.0] * 4, [0.0] * 4], [-2.0, 0.0])
    x, labels = torch.full((1, 4), 0.75), torch.tensor([0])
    assert bench.attack(network, x, labels, 0.24).all()
    assert not bench.attack(network, x, labels, 0.26).any()


@pytest.mark.parametrize(("eps", "certified"), [(0.24, 1.0), (0.26, 0.0)])
def test_a_linear_network_is_certified_exactly_where_it_withstands(eps, certified):
    network = linear([[1.0] * 4, [0.0] * 4], [-2.0, 0.0])
    x, labels = torch.full((3, 4), 0.75), torch.zeros(3, dtype=torch.long)
    row = bench.measure(bench.Case("CCP", 3), network, x, labels, eps)
    assert [row.figures[name] for name in ("accuracy", "certified", "attacked")] == [1.0, certified, certified]
    assert row.figures["tighter"] == pytest.approx(1.0, abs=1e-3), "a single linear map leaves nothing to gain"


def test_the_goal_is_one_for_the_mean():
    rows = [Row("", {"tighter": tighter}) for tighter in (2.0, 5.0)]
    assert bench.summary(rows) == "3.50 times tighter than plain intervals on average; goal 3"


def test_bounds_that_an_attack_breaks_are_an_error(monkeypatch):
    network = linear([[1.0] * 4, [0.0] * 4], [-2.0, 0.0])
    monkeypatch.setattr(bench, "attack", lambda *_: torch.zeros(1, dtype=torch.bool))
    with pytest.raises(AssertionError, match="the bounds are not sound"):
        bench.measure(bench.Case("CCP", 3), network, torch.full((1, 4), 0.75), torch.tensor([0]), 0.01)
