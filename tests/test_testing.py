"""The assertions shipped for users fail where they should; where they hold, other tests use them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from pinets.testing import assert_same_function, assert_variance_preserved


def test_functions_that_differ_are_told_apart_to_the_last_bit():
    first = nn.Linear(3, 2)
    second = copy.deepcopy(first)
    with torch.no_grad():
        second.bias[1] += 1e-3
    x = torch.randn(4, 3)
    assert_same_function(first, copy.deepcopy(first), x)
    assert_same_function(first, second, x, tolerance=2e-3)
    with pytest.raises(AssertionError, match=r"difference: 0\.00(10|09)\d* at index"):
        assert_same_function(first, second, x)


def test_what_is_not_a_number_is_not_the_same():
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    second.load_state_dict({name: torch.full_like(value, torch.nan) for name, value in first.state_dict().items()})
    with pytest.raises(AssertionError, match="difference: nan"):
        assert_same_function(first, second, torch.randn(4, 3), tolerance=1e9)


def test_shapes_are_compared_before_values():
    with pytest.raises(AssertionError, match=r"shape.*\[4, 1\].* != .*\[4, 2\]"):
        assert_same_function(nn.Linear(3, 1), nn.Linear(3, 2), torch.randn(4, 3))


class Doubling(nn.Module):
    def forward(self, x):
        return x.mul_(2)


def test_a_network_that_writes_into_its_input_is_not_the_same_as_the_identity():
    x = torch.randn(64, 3)
    before = x.clone()
    with pytest.raises(AssertionError, match="not equal"):
        assert_same_function(Doubling(), nn.Identity(), x)
    assert_variance_preserved(Doubling(), x, factor=5)
    assert torch.equal(x, before)


class Pair(nn.Module):
    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, x):
        return x, {"positive": x + self.added > 0}


def test_every_output_is_compared():
    x = torch.randn(4, 3)
    assert_same_function(Pair(0), Pair(0), x)
    with pytest.raises(AssertionError, match="positive"):
        assert_same_function(Pair(0), Pair(100), x)
