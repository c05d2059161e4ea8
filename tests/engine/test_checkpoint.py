from __future__ import annotations

import json
import os
import resource
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pinets._storage import digest
from pinets.engine.checkpoint import CheckpointError, Checkpoints, pack, unpack
from pinets.engine.nonfinite import non_finite_names


@pytest.fixture
def checkpoints(tmp_path, accelerator):
    """Two checkpoints, at steps 1 and 2."""
    made = Checkpoints(tmp_path / "checkpoints", owner="me")
    for step in (1, 2):
        save(made, step, accelerator)
    return made


def save(checkpoints, step, accelerator, size=500):
    shared = {"networks": {"model": {"weight": torch.full((size,), float(step))}}, "position": {"step": step}}
    return checkpoints.save(step, shared, {"random": torch.arange(step)}, accelerator)


def names(folder):
    return sorted(os.listdir(folder))


def test_what_is_saved_comes_back(checkpoints):
    found = checkpoints.newest()
    assert (found.step, found.processes) == (2, 1)
    assert torch.equal(found.shared["networks"]["model"]["weight"], torch.full((500,), 2.0))
    assert torch.equal(found.local(0)["random"], torch.arange(2))


def test_the_last_two_stay(checkpoints, accelerator):
    save(checkpoints, 3, accelerator)
    assert names(checkpoints.folder) == ["step-00000002", "step-00000003"]


def test_there_is_no_pickle_in_a_checkpoint(checkpoints):
    assert names(checkpoints.newest().folder) == [
        "checkpoint.json",
        "process-0.json",
        "process-0.safetensors",
        "shared.safetensors",
    ]


FILES = ["checkpoint.json", "process-0.json", "process-0.safetensors", "shared.safetensors"]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", [truncate, change_a_byte, empty, remove])
def test_a_harmed_file_is_named_and_the_previous_checkpoint_used(checkpoints, name, harm):
    harm(checkpoints.folder / "step-00000002" / name)
    refused = []
    assert checkpoints.newest(refused=refused.append).step == 1
    (reason,) = refused
    assert f"step-00000002/{name}" in reason


def test_if_all_are_harmed_it_is_an_error_and_not_a_fresh_start(checkpoints):
    for folder in checkpoints.folders():
        truncate(folder / "shared.safetensors")
    with pytest.raises(CheckpointError, match=r"none of the checkpoints.*step-00000002.*step-00000001"):
        checkpoints.newest()


def test_without_any_checkpoint_there_is_none(tmp_path):
    assert Checkpoints(tmp_path, owner="me").newest() is None


def test_a_checkpoint_of_another_run_is_refused(checkpoints):
    with pytest.raises(CheckpointError, match=r"step-00000002/checkpoint\.json belongs to another recipe"):
        Checkpoints(checkpoints.folder, owner="you").newest()


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"content": {}, "sha256": ""}', '{"content": 1, "sha256": 2}', "null"]
)
def test_json_of_something_else_is_refused(checkpoints, content):
    (checkpoints.folder / "step-00000002" / "checkpoint.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"step-00000002/checkpoint\.json is not a checkpoint of pinets"):
        checkpoints.read(checkpoints.folder / "step-00000002")


def test_another_version_is_refused_by_name(checkpoints):
    index = checkpoints.folder / "step-00000002" / "checkpoint.json"
    document = json.loads(index.read_text())
    document["content"]["format"] = "pinets checkpoint, version 9"
    index.write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match="version 9"):
        checkpoints.read(index.parent)


def test_a_full_disk_leaves_what_was_there(checkpoints, accelerator):
    """A limit on the size of files makes the system itself refuse the write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write.*step-00000003.*step-00000002; free some space"):
            save(checkpoints, 3, accelerator, size=5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(checkpoints.folder) == ["step-00000001", "step-00000002"]
    assert checkpoints.newest().step == 2


@pytest.mark.parametrize("call", range(1, 12))
def test_a_disk_that_fills_up_at_any_write_leaves_what_was_there(checkpoints, accelerator, monkeypatch, call):
    calls = 0
    original = os.fsync

    def full_disk(descriptor):
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(28, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", full_disk)
    try:
        save(checkpoints, 3, accelerator)
    except CheckpointError as error:
        assert "No space left on device" in str(error)  # noqa: PT017 - later calls may not exist
    monkeypatch.undo()
    newest = checkpoints.newest(refused=lambda reason: pytest.fail(reason))
    assert newest.shared["position"]["step"] == newest.step
    assert newest.step in (2, 3)


def test_what_a_killed_process_left_is_swept_away(checkpoints, accelerator):
    shutil.copytree(checkpoints.folder / "step-00000002", checkpoints.folder / ".tmp-step-00000003")
    assert checkpoints.newest().step == 2
    save(checkpoints, 3, accelerator)
    assert names(checkpoints.folder) == ["step-00000002", "step-00000003"]


def test_a_refused_checkpoint_is_replaced_when_the_run_comes_by_again(checkpoints, accelerator):
    truncate(checkpoints.folder / "step-00000002" / "shared.safetensors")
    save(checkpoints, 2, accelerator)
    assert checkpoints.newest().step == 2


@pytest.mark.parametrize(
    "key, value",
    [
        ("files", None),
        ("files", {3: 4}),
        ("shared", None),
        ("shared", {}),
        ("shared", {"networks": 3}),
        ("shared", {"networks": {"model": 3}}),
        ("shared", {"networks": {"model": {"weight": {"tensor:": "absent"}}}}),
        ("shared", {"networks": {"model": {"items:": [[1]]}}}),
        ("step", "soon"),
        ("processes", None),
        ("owner", None),
    ],
)
def test_a_malformed_checkpoint_with_the_right_checksum_is_passed_over(checkpoints, key, value):
    index = checkpoints.folders()[-1] / "checkpoint.json"
    content = json.loads(index.read_text())["content"]
    content[key] = value
    index.write_text(json.dumps({"sha256": digest(content), "content": content}))
    refused = []
    assert checkpoints.newest(refused=refused.append).step == 1
    assert "checkpoint.json" in refused[0] or "is missing" in refused[0]


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
