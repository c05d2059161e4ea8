"""Images from folders and data sets, good ones and bad ones."""

from __future__ import annotations

import gzip
import os
import struct

import pytest
import torch

from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import encode_png
from pinets.tasks.generation.metrics import FolderSource, TensorSource, data_set_source, evaluate_folder, find_source


class Corners:
    name = "corners"
    num_features = 4

    def __call__(self, images):
        return images[:, 1, :2, :2].flatten(1).float() / 255


def pictures(count, channels=3, height=6, width=8):
    return torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8)


def write(folder, images):
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        (folder / f"{number:03}.png").write_bytes(encode_png(image))
    return folder


@pytest.mark.parametrize("channels", [1, 3])
def test_a_folder_is_read_as_it_was_written(tmp_path, channels):
    images = pictures(5, channels)
    write(tmp_path / "some" / "deeper", images)
    source = FolderSource(tmp_path / "some")
    assert len(source) == 5
    assert source.read(torch.tensor([3, 0])).equal(images[[3, 0]])


def test_a_folder_has_a_fingerprint_of_its_files(tmp_path):
    write(tmp_path, pictures(3))
    before = FolderSource(tmp_path).fingerprint()
    assert FolderSource(tmp_path).fingerprint() == before
    (tmp_path / "003.png").write_bytes(encode_png(pictures(1)[0]))
    assert FolderSource(tmp_path).fingerprint() != before


def test_folders_of_one_archive_have_fingerprints_of_their_own(tmp_path):
    for name, level in (("bright", b"\xff"), ("dark", b"\x01")):
        file = tmp_path / name / "0.ppm"  # without compression, all files are of one size
        file.parent.mkdir()
        file.write_bytes(b"P6 2 2 255\n" + 12 * level)
        os.utime(file, (0, 0))
    assert FolderSource(tmp_path / "bright").fingerprint() != FolderSource(tmp_path / "dark").fingerprint()


def test_folders_without_images(tmp_path):
    with pytest.raises(MissingDataError, match=r"there is no folder .*gone"):
        FolderSource(tmp_path / "gone")
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(MissingDataError, match="holds no images"):
        FolderSource(tmp_path)


@pytest.mark.parametrize(
    "other, message", [(pictures(1, height=9)[0], "002.png is 8x9 RGB"), (pictures(1, 1)[0], "002.png is 8x6 L")]
)
def test_mixed_sizes_and_modes_are_named(tmp_path, other, message):
    write(tmp_path, [*pictures(2), other])
    with pytest.raises(DataError, match=f"one size and mode: .*000.png is 8x6 RGB, .*{message}"):
        FolderSource(tmp_path)


def test_other_modes_are_refused(tmp_path):
    from PIL import Image

    Image.new("RGBA", (4, 4)).save(tmp_path / "clear.png")
    with pytest.raises(DataError, match=r"clear\.png has mode RGBA; images must be grey \(L\) or RGB"):
        FolderSource(tmp_path)


def test_broken_images_are_named(tmp_path):
    write(tmp_path, pictures(3))
    whole = (tmp_path / "001.png").read_bytes()
    (tmp_path / "001.png").write_bytes(whole[: len(whole) // 2])  # its header is right
    source = FolderSource(tmp_path)
    with pytest.raises(DataError, match=r"001\.png: cannot be decoded"):
        source.read(torch.arange(3))
    (tmp_path / "001.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"001\.png: cannot be decoded"):
        FolderSource(tmp_path)


def test_two_folders_are_compared(tmp_path):
    images = pictures(40)
    one, two = write(tmp_path / "one", images), write(tmp_path / "two", images)
    options = {"extractor": Corners(), "cache_dir": tmp_path / "cache"}
    result = evaluate_folder(one, str(two), "fid5k", samples=40, **options)
    assert result.values["fid"] == pytest.approx(0, abs=1e-6)
    assert (result.samples, result.reference, result.reference_images) == (40, str(two), 40)
    with pytest.raises(ValueError, match=r"fid5k takes 5,000 images, but .*one has 40; another number \(--samples\)"):
        evaluate_folder(one, str(two), "fid5k", **options)
    with pytest.raises(ValueError, match="'cifar11' is neither a folder nor a data set; did you mean 'cifar10'"):
        evaluate_folder(one, "cifar11", "fid5k", samples=40, **options)


def test_images_of_another_size_are_refused_before_the_reference_is_measured(tmp_path):
    one, two = write(tmp_path / "one", pictures(5)), write(tmp_path / "two", pictures(5, height=8))
    with pytest.raises(ValueError, match=r"samples are 6x8, but the images of .*two are 8x8"):
        evaluate_folder(one, str(two), "fid5k", samples=5, extractor=Corners(), cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def write_mnist(folder, count=20):
    folder.mkdir(parents=True)
    labels = bytes(number % 10 for number in range(count))
    for part in ("train", "t10k"):
        pixels = bytes(torch.randint(0, 256, (count * 28 * 28,)).tolist())
        images = struct.pack(">IIII", 0x803, count, 28, 28) + pixels
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, count) + labels))


def test_a_data_set_gives_all_its_training_images(tmp_path):
    write_mnist(tmp_path / "fashion-mnist")
    train = find_source("fashion_mnist", "train", tmp_path, pad=2)
    assert (train.name, len(train)) == ("fashion_mnist/train, padded by 2", 20)
    assert sorted(train.labels.tolist()) == sorted(list(range(10)) * 2)
    assert train.images.shape == (20, 1, 32, 32)
    assert train.images[:, :, :2].eq(0).all()
    assert train.images[:, :, 2:-2, 2:-2].float().mean() > 100
    assert data_set_source("fashion_mnist", "test", tmp_path).name == "fashion_mnist/test"
    with pytest.raises(ValueError, match="only images of data sets are padded"):
        find_source(str(tmp_path), "train", pad=2)


def test_labels_must_fit():
    with pytest.raises(ValueError, match=r"5 images and labels of shape \(4,\): one for each"):
        TensorSource("noise", pictures(5), torch.zeros(4).long())
