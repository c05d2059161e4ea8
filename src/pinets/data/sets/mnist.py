"""MNIST and Fashion-MNIST, which have the same four idx files."""

from __future__ import annotations

from pathlib import Path

from pinets.data.errors import DataError
from pinets.data.formats.idx import find_idx, read_idx
from pinets.data.samples import ImageSet, Splits, check_labels
from pinets.data.splits import hold_out

__all__ = ["IDX_FILES", "read_fashion_mnist", "read_mnist"]

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_DIGITS = tuple("0123456789")
_CLOTHES = (
    "t-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def read_mnist(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read MNIST's four idx files, plain or compressed.

    Args:
        folder: Where the files are.
        validation: The fraction of every class held out of the training images.
        seed: Decides which images are held out.
    """
    return _read(folder, _DIGITS, validation, seed)


def read_fashion_mnist(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read Fashion-MNIST's four idx files, plain or compressed; the arguments are those of :func:`read_mnist`."""
    return _read(folder, _CLOTHES, validation, seed)


def _read(folder: Path, classes: tuple[str, ...], validation: float, seed: int) -> Splits[ImageSet]:
    train = _read_pair(folder, *IDX_FILES[:2], classes)
    test = _read_pair(folder, *IDX_FILES[2:], classes)
    return Splits(*hold_out(train, validation, seed=seed), test)


def _read_pair(folder: Path, image_name: str, label_name: str, classes: tuple[str, ...]) -> ImageSet:
    image_path, label_path = find_idx(folder, image_name), find_idx(folder, label_name)
    images, labels = read_idx(image_path, dimensions=3), read_idx(label_path, dimensions=1).long()
    if len(images) != len(labels):
        raise DataError(f"{image_path} has {len(images)} images, but {label_path} has {len(labels)} labels")
    check_labels(labels, len(classes), label_path)
    return ImageSet(images.unsqueeze(1), labels, classes)
