"""Weights as people have them: bare, in a checkpoint, or under the names of a wrapper."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets.convert.weights import load_weights

WRAPPED = {
    "bare": lambda state: state,
    "checkpoint": lambda state: {"epoch": 3, "state_dict": state},
    "model of a checkpoint": lambda state: {"model": state, "step": 3},
    "data parallel": lambda state: {f"module.{name}": value for name, value in state.items()},
    "compiled": lambda state: {f"_orig_mod.{name}": value for name, value in state.items()},
    "both": lambda state: {"state_dict": {f"module._orig_mod.{name}": value for name, value in state.items()}},
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_weights_are_found(wrap, tmp_path):
    trained, fresh = nn.Linear(3, 2), nn.Linear(3, 2)
    torch.save(wrap(trained.state_dict()), tmp_path / "weights.pth")
    load_weights(fresh, tmp_path / "weights.pth")
    assert torch.equal(fresh.weight, trained.weight)


@pytest.mark.parametrize("name", ["model", "module"])
def test_a_layer_named_as_a_wrapper_keeps_its_name(name, tmp_path):
    trained, fresh = (nn.ModuleDict({name: nn.Linear(3, 2)}) for _ in range(2))
    torch.save(trained.state_dict(), tmp_path / "weights.pth")
    load_weights(fresh, tmp_path / "weights.pth")
    assert torch.equal(fresh[name].weight, trained[name].weight)


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save({"state_dict": nn.Linear(4, 2).state_dict()}, tmp_path / "weights.pth")
    with pytest.raises(
        ValueError, match=r"weights\.pth does not hold the weights .* weight should have shape \(2, 3\)"
    ):
        load_weights(nn.Linear(3, 2), tmp_path / "weights.pth")
