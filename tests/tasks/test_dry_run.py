"""``--dry-run`` lists all that does not fit, whatever the task."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from pinets import tasks as recipes
from pinets.cli import main


def found(name, data, *changes, scale="small"):
    return recipes.get_recipe(name, scale, changes).check(data)


def dry_run(name, data, *changes):
    return main(
        [
            "train",
            name,
            "--scale",
            "small",
            "--dry-run",
            "--data",
            str(data),
            *(w for c in changes for w in ("--set", c)),
        ]
    )


@pytest.fixture
def fashion(tmp_path):
    """Forty training images and ten test images in the official format."""
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for part, count in (("train", 40), ("t10k", 10)):
        labels = torch.arange(count, dtype=torch.uint8) % 10
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + np.random.default_rng(0).bytes(count * 28 * 28))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels.numpy().tobytes())
    return tmp_path


TINY_GAN = (
    "model.width=2",
    "discriminator.width=2",
    "channels_last=no",
    "metric=none",
    "validation_metric=none",
    "batch=8",
)


def test_a_generator_that_fits_passes_and_random_numbers_stay(fashion, capsys):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found("fashion_ncp", fashion, *TINY_GAN)
    assert torch.equal(torch.rand(2), expected)
    assert dry_run("fashion_ncp", fashion, *TINY_GAN) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "discriminator: " in shown.out


def test_everything_wrong_with_a_generator_is_listed(fashion, capsys):
    changes = (*TINY_GAN, "data.pad=0", "batch=64", "metric=none", "channels_last=yes")
    assert dry_run("fashion_ncp", fashion, *changes) == 1
    errors = capsys.readouterr().err
    assert "the generator makes images of (1, 32, 32) and the data are of (1, 28, 28)" in errors
    assert "batch: 40 training samples make no batch of 64" in errors


def test_of_data_that_are_missing_only_the_networks_are_checked(tmp_path):
    answer = found("fashion_ncp", tmp_path, *TINY_GAN, "discriminator.channels=3")
    assert len(answer.missing) == 1
    assert len(answer.mismatches) == 1
    assert "the discriminator does not take the images, which are of (1, 32, 32)" in answer.mismatches[0]
    assert not [path for path in tmp_path.rglob("*") if path.stat().st_size]


def test_missing_weights_of_a_metric_are_named(fashion, monkeypatch, tmp_path):
    monkeypatch.setenv("PINETS_DATA", str(fashion))
    monkeypatch.setenv("PINETS_CACHE", str(tmp_path / "cache"))
    answer = found("fashion_ncp", fashion, *TINY_GAN, "metric=fid2k")
    assert "the weights of the Inception network are not in" in answer.missing[0]
    assert "was not allowed" in answer.missing[0]


def test_a_classifier_is_checked_beyond_its_shape(fashion):
    assert found("fashion_ccp4", fashion, "batch=16").mismatches == []
    answer = found("fashion_ccp4", fashion, "batch=16", "optimizer=Muon")
    assert answer.mismatches == ["optimizer: Muon is for networks with convolutions, and this one has none"]
    answer = found("fashion_ccp4", fashion, "batch=64", "data.classes=9")
    assert answer.mismatches == [
        "data.classes is 9, but fashion_mnist has 10 classes",
        "batch: 30 training samples make no batch of 64",
    ]
    answer = found("fashion_ccp4", fashion, "batch=16", "range_penalty.layers=block.*")
    assert answer.mismatches == ["range_penalty: the network has no layers 'block.*'"]
    answer = found("cifar10_resnet18", fashion, "gate_decay=0.1", "model.width=16")
    assert len(answer.missing) == 1
    assert answer.mismatches == ["gate_decay is 0.1, and the network has no layers named gate"]


def test_damaged_data_do_not_fit(fashion, capsys):
    labels = fashion / "fashion-mnist" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    assert dry_run("fashion_ccp4", fashion, "batch=16") == 1  # what is missing, 0
    assert capsys.readouterr().err.startswith(f"does not fit: data: {labels}")


@pytest.fixture
def balls(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    from pinets.tasks.meshes.geometry import write_mesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    folder = tmp_path / "meshes" / "faces"
    folder.mkdir(parents=True)
    shapes = torch.tensor(ball.vertices).float() * (
        1 + 0.1 * torch.rand(13, 1, 3, generator=torch.Generator().manual_seed(0))
    )
    np.save(folder / "train.npy", shapes[:10].numpy())
    np.save(folder / "test.npy", shapes[10:].numpy())
    write_mesh(folder / "template.obj", torch.tensor(ball.vertices), torch.tensor(ball.faces))
    return tmp_path


TINY_MESH = (
    *("data.reduced=false", "data.vertices=162", "hierarchy.factors=4,4", "hierarchy.hops=1,1,1", "latent=3"),
    *("hierarchy.dilation=1,1,1", "hierarchy.lengths=6,6,6", "batch=4"),
)


def test_everything_wrong_with_an_autoencoder_is_listed(balls, tmp_path, monkeypatch):
    pytest.importorskip("fast_simplification")
    monkeypatch.setenv("PINETS_CACHE", str(tmp_path / "cache"))
    widths = ("model.encoder=3,4,4", "model.decoder=4,4,3")
    assert found("coma_spiral_ncp_3", balls, *TINY_MESH, *widths).mismatches == []
    (wrong,) = found("coma_spiral_ncp_3", balls, *TINY_MESH, *widths, "data.vertices=200").mismatches
    assert wrong == "data.vertices is 200, but the shapes of mesh_faces have 162"
    answer = found("coma_pca", balls, *TINY_MESH, "latent=12", "batch=16")
    assert [text.partition(":")[0] for text in answer.mismatches] == ["batch", "latent"]
    answer = found("coma_spiral_ncp_3", balls, *TINY_MESH, "model.encoder=3,4", "model.decoder=4,3", "batch=16")
    assert [text.partition(":")[0] for text in answer.mismatches] == ["model", "batch", "hierarchy"]


def test_everything_wrong_with_faces_is_listed(tmp_path):
    tiny = ("model.width=8", "channels_last=no", "model.depths=1,1", "model.embedding=16")
    answer = found("lfw_iresnet", tmp_path, *tiny, "data.size=48")
    assert len(answer.missing) == 1
    (wrong,) = answer.mismatches
    assert "the network does not take faces of (3, 48, 48), as data.size makes them" in wrong
