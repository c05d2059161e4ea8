from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import Literal

import pytest
import torch

from pinets import _storage
from pinets._files import write_bytes


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    _storage.write_json(path, {"accuracy": 0.5})

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        _storage.write_json(path, {"accuracy": 0.9})
    assert _storage.read_json(path) == {"accuracy": 0.5}
    assert os.listdir(tmp_path) == ["result.json"]


def test_floats_come_back_to_the_last_bit(tmp_path):
    values = [0.1 + 0.2, 1e-310, 3.0e38, 1 / 3]
    _storage.write_json(tmp_path / "values.json", values)
    assert _storage.read_json(tmp_path / "values.json") == values


def test_a_file_that_is_not_json_is_named(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text('{"epochs": 12')
    with pytest.raises(ValueError, match=r"recipe\.json is not valid JSON"):
        _storage.read_json(path)


def test_checksum_is_sha256(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(range(256)) * 1000)
    assert _storage.checksum(path) == hashlib.sha256(bytes(range(256)) * 1000).hexdigest()


def test_tensors_that_share_memory_come_back_apart(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    tensors = {"whole": whole, "again": whole, "part": whole[1], "turned": whole.T, "one": torch.ones(())}
    _storage.write_tensors(tmp_path / "t.safetensors", tensors, {"note": "Π"})
    found, metadata = _storage.read_tensors(tmp_path / "t.safetensors")
    assert metadata == _storage.read_metadata(tmp_path / "t.safetensors") == {"note": "Π"}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert os.listdir(tmp_path) == ["t.safetensors"]


@dataclasses.dataclass(frozen=True)
class Inner:
    sizes: tuple[int, int] = (1, 2)


@dataclasses.dataclass(frozen=True)
class Outer:
    low: float
    inner: Inner | None = None
    mode: Literal["fast", "slow"] = "fast"

    def __post_init__(self):
        if self.low > 9:
            raise ValueError(f"low must be at most 9, got {self.low}")


@pytest.mark.parametrize("content", [{"low": 1}, {"kind": "Outer", "low": 1.0, "inner": None, "mode": "fast"}])
def test_dataclasses_come_from_json_with_and_without_their_kind(content):
    assert _storage.from_json(Outer, content, "it") == Outer(1.0)
    assert _storage.from_json(Outer, {"low": 1, "inner": {"sizes": [3, 4]}}, "it") == Outer(1.0, Inner((3, 4)))


@pytest.mark.parametrize(
    "content, message",
    [
        ({}, r"it\.low is missing"),
        ([], r"it must be Outer \(low, inner, mode\), got \[\]"),
        ({"kind": "Inner", "low": 1}, r"it must be Outer"),
        ({"low": 10**400}, r"it\.low must be a number, got 1000"),
        ({"low": float("nan")}, r"it\.low must be a number, got nan"),
        ({"low": "1"}, r"it\.low must be a number, got '1'"),
        ({"low": True}, r"it\.low must be a number, got True"),
        ({"low": 10}, r"it: low must be at most 9, got 10"),
        ({"low": 1, "mode": "fsat"}, r"it\.mode must be 'fast' or 'slow', got 'fsat'"),
        (
            {"low": 1, "inner": {"sizes": [3]}},
            r"it\.inner\.sizes must be a list of values, each a whole number, got \[3\]",
        ),
        ({"low": 1, "inner": {"sizes": "34"}}, r"it\.inner\.sizes must be a list"),
        ({"low": 1, "inner": {"kind": "Outer"}}, r"it\.inner must be Inner \(sizes\) or none, got"),
        ({"low": 1, "inner": {"size": [3, 4]}}, r"there is no key 'it\.inner\.size'; did you mean 'it\.inner\.sizes'"),
    ],
)
def test_json_that_does_not_fit_is_refused_by_its_key(content, message):
    with pytest.raises(ValueError, match=message):
        _storage.from_json(Outer, content, "it")


def test_json_nested_without_end_is_refused_by_name(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"deep\.json is not valid JSON"):
        _storage.read_json(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_can_be_read_by_whom_other_files_can(tmp_path):
    (tmp_path / "other").touch()
    _storage.write_tensors(tmp_path / "tensors.safetensors", {"x": torch.zeros(2)})
    assert (tmp_path / "tensors.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_that_cannot_be_written_is_named_as_the_caller_named_it(tmp_path):
    path = tmp_path / ("x" * 240)  # with the ending of a temporary file it is too long
    with pytest.raises(OSError, match="File name too long") as caught:
        write_bytes(path, b"")
    assert caught.value.filename == str(path)
