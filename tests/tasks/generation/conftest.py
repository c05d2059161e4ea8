"""A tiny generator of clothes, and its data."""

from __future__ import annotations

import struct

import pytest
import torch

from pinets import tasks as recipes

TINY = [
    *("model.width=2", "model.latent=4", "discriminator.width=2", "epochs=2", "steps_per_epoch=2", "batch=8"),
    *("generator_batch=4", "metric=none", "validation_metric=none", "checkpoint_every=1", "channels_last=no"),
]


@pytest.fixture
def fashion(tmp_path):
    """A data folder with Fashion-MNIST in its official format: white squares."""
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    for part, count in (("train", 60), ("t10k", 20)):
        images = torch.zeros(count, 28, 28, dtype=torch.uint8)
        images[:, 8:20, 8:20] = 255
        labels = torch.arange(count, dtype=torch.uint8) % 10
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + images.numpy().tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels.numpy().tobytes())
    return tmp_path / "data"


@pytest.fixture
def tiny():
    return recipes.get_recipe("fashion_ncp", "small", TINY)


@pytest.fixture
def run(tiny, fashion, tmp_path):
    recipes.train(tiny, tmp_path / "runs", data_dir=fashion)
    return tmp_path / "runs" / "fashion_ncp-small" / "seed-0"
