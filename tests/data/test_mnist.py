import gzip
import struct

import pytest
import torch

from pinets.data import DataError, MissingDataError
from pinets.data.formats.idx import read_idx
from pinets.data.sets.mnist import IDX_FILES, read_fashion_mnist, read_mnist


def idx(array):
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + bytes(array.flatten().tolist())


def write_set(folder, pack=bytes, ending=""):
    generator = torch.Generator().manual_seed(0)
    arrays = []
    for count in (200, 50):
        arrays.append(torch.randint(0, 256, (count, 5, 4), dtype=torch.uint8, generator=generator))
        arrays.append((torch.arange(count) % 10).byte())
    for name, array in zip(IDX_FILES, arrays, strict=True):
        (folder / f"{name}{ending}").write_bytes(pack(idx(array)))
    return arrays


@pytest.mark.parametrize("pack, ending", [(bytes, ""), (gzip.compress, ".gz"), (gzip.compress, "")])
def test_four_files(tmp_path, pack, ending):
    images, labels, test_images, test_labels = write_set(tmp_path, pack, ending)
    splits = read_mnist(tmp_path, validation=0.2)
    assert (len(splits.train), len(splits.validation)) == (160, 40)
    assert torch.equal(splits.test.images[:, 0], test_images)
    assert torch.equal(splits.test.labels, test_labels.long())
    rows = {bytes(image.flatten().tolist()): int(label) for image, label in zip(images, labels, strict=True)}
    for part in (splits.train, splits.validation):
        for image, label in zip(part.images, part.labels, strict=True):
            assert rows[bytes(image.flatten().tolist())] == label


def test_fashion_mnist_has_its_own_classes(tmp_path):
    write_set(tmp_path)
    classes = read_fashion_mnist(tmp_path).train.classes
    assert classes[0] == "t-shirt/top"
    assert classes[9] == "ankle boot"


@pytest.mark.parametrize("name", IDX_FILES)
def test_missing_file_is_named(tmp_path, name):
    write_set(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(MissingDataError, match=rf"{name} is missing.*{name}\.gz"):
        read_mnist(tmp_path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("keep", [0, 3, 6, 15, 16, 100, -1])
def test_every_cut_is_seen(tmp_path, pack, keep):
    path = tmp_path / "images"
    path.write_bytes(pack(idx(torch.arange(240, dtype=torch.uint8).view(12, 5, 4)))[:keep])
    with pytest.raises(DataError, match=r"images: "):
        read_idx(path, dimensions=3)


def test_damaged_compression_is_named(tmp_path):
    packed = bytearray(gzip.compress(idx(torch.randint(0, 256, (40, 5, 4), dtype=torch.uint8))))
    packed[60] ^= 0xFF
    (tmp_path / "images.gz").write_bytes(packed)
    with pytest.raises(DataError, match=r"images\.gz: "):
        read_idx(tmp_path / "images.gz", dimensions=3)


def test_more_than_announced(tmp_path):
    (tmp_path / "labels").write_bytes(idx(torch.zeros(3).byte()) + b"!")
    with pytest.raises(DataError, match=r"labels: its header announces 3 bytes \(3\), found more"):
        read_idx(tmp_path / "labels", dimensions=1)


def test_header_of_another_kind(tmp_path):
    (tmp_path / "labels").write_bytes(idx(torch.zeros(3).byte()))
    with pytest.raises(DataError, match=r"starts with 00 00 08 01, .* start with 00 00 08 03"):
        read_idx(tmp_path / "labels", dimensions=3)
    (tmp_path / "huge").write_bytes(bytes([0, 0, 8, 3]) + b"\xff" * 12)
    with pytest.raises(DataError, match="huge: its header asks for 4294967295 x 4294967295 x 4294967295 bytes"):
        read_idx(tmp_path / "huge", dimensions=3)


def test_labels_that_do_not_fit_their_images(tmp_path):
    write_set(tmp_path)
    (tmp_path / IDX_FILES[1]).write_bytes(idx(torch.zeros(199).byte()))
    with pytest.raises(DataError, match=r"has 200 images, but .* has 199 labels"):
        read_mnist(tmp_path)
    (tmp_path / IDX_FILES[1]).write_bytes(idx(torch.full((200,), 10).byte()))
    with pytest.raises(DataError, match=rf"{IDX_FILES[1]}: record 0 has label 10"):
        read_mnist(tmp_path)
