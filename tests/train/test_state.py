from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pinets.train.state import non_finite_names, pack, unpack

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TENSORS = st.lists(st.floats(allow_nan=False, width=32), max_size=3).map(torch.tensor)
KEYS = st.text() | st.integers() | st.sampled_from(["tensor:", "tuple:", "items:", "a.b", "a"])
STATES = st.recursive(
    PLAIN | TENSORS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner),
    max_leaves=12,
)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@given(STATES)
def test_any_state_survives_json_and_names(state):
    skeleton, tensors = pack(state)
    assert same(unpack(json.loads(json.dumps(skeleton)), tensors), state)


def test_the_state_of_an_optimizer_survives():
    weight = torch.nn.Parameter(torch.randn(3, 2))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    skeleton, tensors = pack(optimizer.state_dict())
    assert same(unpack(json.loads(json.dumps(skeleton)), tensors), optimizer.state_dict())


def test_saved_tensors_do_not_follow_the_run():
    weight = torch.zeros(2)
    _, tensors = pack({"weight": weight, "tied": weight})
    weight.add_(1)
    assert [tensor.tolist() for tensor in tensors.values()] == [[0, 0], [0, 0]]
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == 2  # safetensors refuses shared memory


def test_what_needs_pickle_is_refused_by_its_path():
    with pytest.raises(TypeError, match=r"state\.model\.0 is a object"):
        pack({"model": [object()]})


def test_integers_are_always_finite():
    tensors = {"steps": torch.tensor(3), "weight": torch.tensor([float("inf")]), "bias": torch.zeros(1)}
    assert non_finite_names(tensors) == ["weight"]
