"""The assertions shipped for users fail where they should; where they hold, other tests use them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from pinets.testing import assert_same_function


def test_functions_that_differ_are_told_apart_to_the_last_bit():
    first = nn.Linear(3, 2)
    second = copy.deepcopy(first)
    with torch.no_grad():
        second.bias[1] += 1e-3
    x = torch.randn(4, 3)
    assert_same_function(first, copy.deepcopy(first), x)
    assert_same_function(first, second, x, tolerance=2e-3)
    with pytest.raises(AssertionError, match=r"differ by up to 0\.001, allowed is 0"):
        assert_same_function(first, second, x)


def test_what_is_not_a_number_is_not_the_same():
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    second.load_state_dict({name: torch.full_like(value, torch.nan) for name, value in first.state_dict().items()})
    with pytest.raises(AssertionError, match="differ by up to nan"):
        assert_same_function(first, second, torch.randn(4, 3), tolerance=1e9)


def test_shapes_are_compared_before_values():
    with pytest.raises(AssertionError, match=r"different shapes: \(4, 1\) and \(4, 2\)"):
        assert_same_function(nn.Linear(3, 1), nn.Linear(3, 2), torch.randn(4, 3))
