"""Folders of images without classes, and Yale B."""

from __future__ import annotations

import os

import pytest
import torch
from PIL import Image

from pinets.data import DataError, FolderSet, ImageSet, MissingDataError, load
from pinets.data.formats.images import image_grid


def write(path, size=(12, 12), mode="RGB", value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * 3).save(path)


def test_all_images_of_a_folder_are_read_at_any_depth(tmp_path):
    for number in range(20):
        write(tmp_path / f"part{number % 3}" / f"{number}.png", value=10 * number)
    (tmp_path / "notes.txt").write_text("not an image")
    splits = load("pictures", tmp_path, size=8)
    parts = (splits.train, splits.validation, splits.test)
    assert all(isinstance(part, ImageSet) for part in parts)
    assert splits.train.images.shape[1:] == (3, 8, 8)
    values = torch.cat([part.images[:, 0, 0, 0] for part in parts])
    assert sorted(values.tolist()) == [10 * number for number in range(20)]  # each in one part


def test_grey_images_keep_one_channel(tmp_path):
    for number in range(20):
        write(tmp_path / f"{number}.png", mode="L", value=10 * number)
    splits = load("pictures", tmp_path, size=8)
    assert splits.train.images.shape[1:] == (1, 8, 8)
    values = torch.cat([part.images[:, 0, 0, 0] for part in (splits.train, splits.validation, splits.test)])
    assert sorted(values.tolist()) == [10 * number for number in range(20)]


def test_what_does_not_fit_into_memory_stays_in_files(tmp_path, monkeypatch):
    for number in range(20):
        write(tmp_path / f"{number}.png")
    monkeypatch.setattr("pinets.data.sets.folders._IN_MEMORY", 100)
    train = load("pictures", tmp_path, size=8).train
    assert isinstance(train, FolderSet)
    assert train.read(torch.tensor([0, 1]), torch.empty(2, 0)).shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    "kind, message",
    [
        ({"size": (12, 10)}, r"one size and mode: .*00\.png is 12x12 RGB, .*odd\.png is 12x10 RGB"),
        ({"mode": "L"}, r"one size and mode: .*00\.png is 12x12 RGB, .*odd\.png is 12x12 L"),
    ],
)
def test_mixed_sizes_and_modes_are_told(tmp_path, kind, message):
    for number in range(5):
        write(tmp_path / f"0{number}.png")
    write(tmp_path / "odd.png", **kind)
    with pytest.raises(DataError, match=message):
        load("pictures", tmp_path, size=8)


def test_empty_folders_and_broken_images_are_named(tmp_path):
    with pytest.raises(MissingDataError, match="holds no images"):
        load("pictures", tmp_path, size=8)
    for number in range(20):
        write(tmp_path / f"0{number}.png")
    whole = (tmp_path / "00.png").read_bytes()
    (tmp_path / "broken.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"broken\.png: cannot be decoded"):
        load("pictures", tmp_path, size=8)


def test_lfwcrop_is_looked_for_under_its_name(tmp_path):
    with pytest.raises(MissingDataError, match="lfwcrop is not in"):
        load("lfwcrop", tmp_path)
    for number in range(20):
        write(tmp_path / "lfwcrop" / "lfw" / f"Person_{number}" / "0001.jpg", size=(64, 64))
    assert len(load("lfwcrop", tmp_path, size=32).train) == 16


def test_yale_b(tmp_path):
    folder = tmp_path / "yaleb" / "CroppedYale"
    for person in ("yaleB01", "yaleB39"):
        for light in range(20):
            write(folder / person / f"{person}_P00A+{light:03}E+00.pgm", (84, 96), "L", value=light)
        write(folder / person / f"{person}_P00_Ambient.pgm", (640, 480), "L")
    splits = load("yaleb", tmp_path, size=16)
    assert splits.train.classes == ("yaleB01", "yaleB39")
    assert splits.train.images.shape[1:] == (1, 16, 16)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [32, 4, 4]
    for part in (splits.validation, splits.test):
        assert torch.bincount(part.labels).tolist() == [2, 2]


def test_yale_b_names_what_is_wrong(tmp_path):
    with pytest.raises(MissingDataError, match="CroppedYale"):
        load("yaleb", tmp_path)
    folder = tmp_path / "CroppedYale" / "yaleB01"
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match="yaleB01 holds no pgm files"):
        load("yaleb", tmp_path)
    (folder / "yaleB01_P00A+000E+00.pgm").write_bytes(b"P5 84 96 255\n" + bytes(10))
    with pytest.raises(DataError, match=r"yaleB01_P00A\+000E\+00\.pgm: cannot be decoded"):
        load("yaleb", tmp_path)


def test_a_grid_refuses_what_are_not_images():
    with pytest.raises(ValueError, match=r"must be uint8 \(N, C, H, W\), at least one"):
        image_grid(torch.zeros(0, 1, 2, 2, dtype=torch.uint8))
    with pytest.raises(ValueError, match="float32"):
        image_grid(torch.zeros(1, 1, 2, 2))


@pytest.mark.skipif("PINETS_DATA" not in os.environ, reason="needs the real data")
@pytest.mark.parametrize("name, count, channels", [("yaleb", 2414, 1), ("lfwcrop", 13233, 3)])
def test_the_real_sets(name, count, channels):
    splits = load(name, size=32)
    assert len(splits.train) + len(splits.validation) + len(splits.test) == count
    assert splits.test.images.shape[1:] == (channels, 32, 32)
    assert splits.test.images.float().std() > 30
