from __future__ import annotations

import hashlib
import os

import pytest

from pinets.train import files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    files.write_json(path, {"accuracy": 0.5})

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(path, {"accuracy": 0.9})
    assert files.read_json(path) == {"accuracy": 0.5}
    assert os.listdir(tmp_path) == ["result.json"]


def test_floats_come_back_to_the_last_bit(tmp_path):
    values = [0.1 + 0.2, 1e-310, 3.0e38, 1 / 3]
    files.write_json(tmp_path / "values.json", values)
    assert files.read_json(tmp_path / "values.json") == values


def test_a_file_that_is_not_json_is_named(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text('{"epochs": 12')
    with pytest.raises(ValueError, match=r"recipe\.json is not valid JSON"):
        files.read_json(path)


def test_checksum_is_sha256(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(range(256)) * 1000)
    assert files.checksum(path) == hashlib.sha256(bytes(range(256)) * 1000).hexdigest()
