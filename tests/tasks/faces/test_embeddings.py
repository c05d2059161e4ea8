"""Embeddings: computed, and from files."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
import torch
from torch import nn

from pinets.data import DataError, MissingDataError
from pinets.tasks.faces.embeddings import embed, open_embeddings, write_features


def test_embedding_leaves_every_layer_in_its_mode():
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.BatchNorm1d(4))
    network[2].eval()  # frozen, as in fine-tuning
    embed(network, [torch.randn(3, 1, 2, 2)])
    assert [module.training for module in network] == [True, True, False]


def write_feature(path, values, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<4i", *(header or (len(values), 1, 4, 5))) + struct.pack(f"<{len(values)}f", *values))


def test_features_of_megafaces_tools_become_one_file(tmp_path):
    for number, name in enumerate(("a/1.jpg", "b/2.jpg")):
        write_feature(tmp_path / f"{name}_net.bin", [number, 2.0, 3.0])
    write_features(tmp_path, ["b/2.jpg", "a/1.jpg"], "_net.bin", tmp_path / "all.npy")
    assert open_embeddings(tmp_path / "all.npy").tolist() == [[1, 2, 3], [0, 2, 3]]
    write_feature(tmp_path / "c.jpg_net.bin", [1.0, 2.0])
    with pytest.raises(DataError, match="has 2 values, the first has 3"):
        write_features(tmp_path, ["a/1.jpg", "c.jpg"], "_net.bin", tmp_path / "all.npy")
    write_feature(tmp_path / "d.jpg_net.bin", [1.0], header=(1, 1, 8, 6))
    with pytest.raises(DataError, match="expected a column of float32"):
        write_features(tmp_path, ["d.jpg"], "_net.bin", tmp_path / "all.npy")


@pytest.mark.parametrize("error", [MissingDataError("gone"), KeyboardInterrupt()])
def test_features_that_are_not_complete_leave_no_file(tmp_path, monkeypatch, error):
    """Half a matrix would look like a whole one, with rows of zeros."""

    def read(path):
        if path.name == "b.jpg_net.bin":
            raise error
        return bytes(12)

    monkeypatch.setattr("pinets.tasks.faces.embeddings._read_feature", read)
    with pytest.raises(type(error)):
        write_features(tmp_path, ["a.jpg", "b.jpg"], "_net.bin", tmp_path / "all.npy")
    assert not list(tmp_path.iterdir())
    write_features(tmp_path, ["a.jpg"], "_net.bin", tmp_path / "all.npy")
    before = (tmp_path / "all.npy").read_bytes()
    with pytest.raises(type(error)):
        write_features(tmp_path, ["a.jpg", "b.jpg"], "_net.bin", tmp_path / "all.npy")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


class Malicious:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_embeddings_are_matrices_of_numbers(tmp_path):
    np.save(tmp_path / "good.npy", np.eye(3, dtype=np.float16))
    assert open_embeddings(tmp_path / "good.npy").shape == (3, 3)
    np.save(tmp_path / "evil.npy", np.array([[Malicious()]], dtype=object), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    (tmp_path / "no.npy").write_bytes(b"not an array")
    for name in ("evil", "flat", "text", "no"):
        with pytest.raises(DataError, match=f"{name}.npy"):
            open_embeddings(tmp_path / f"{name}.npy")
    with pytest.raises(MissingDataError, match=r"there is no file .*gone\.npy"):
        open_embeddings(tmp_path / "gone.npy")
