"""CIFAR-10 and CIFAR-100, in the official binary and the official python version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.pickles import load_arrays
from pinets.data.formats.text import read_text
from pinets.data.samples import ImageSet, Splits, check_labels
from pinets.data.splits import hold_out

__all__ = ["read_cifar10", "read_cifar100"]

_PIXELS = 3 * 32 * 32  # red, green, blue plane after each other, each row by row
# Number of records in the official files. A dataset counts as official by the number of its classes, the first and the
# last of them: a dataset of your own in the same layout may have any size.
_RECORDS = {
    (10, "airplane", "truck"): {**{f"data_batch_{number}": 10_000 for number in range(1, 6)}, "test_batch": 10_000},
    (100, "apple", "worm"): {"train": 50_000, "test": 10_000},
}


def read_cifar10(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read CIFAR-10 from ``cifar-10-batches-bin`` or ``cifar-10-batches-py``.

    Args:
        folder: Either of the two, as unpacked.
        validation: The fraction of every class held out of the training images.
        seed: Decides which images are held out.
    """
    parts = [f"data_batch_{number}" for number in range(1, 6)], ["test_batch"]
    if (folder / "batches.meta").exists():
        meta = _dictionary(folder / "batches.meta")
        classes = _names(meta, b"label_names", folder / "batches.meta")
        train, test = (_read(folder, names, classes, partial(_read_python, key=b"labels")) for names in parts)
    else:
        classes = _lines(folder / "batches.meta.txt")
        files = ([f"{name}.bin" for name in names] for names in parts)
        train, test = (_read(folder, names, classes, partial(_read_binary, label_bytes=1)) for names in files)
    return Splits(*hold_out(train, validation, seed=seed), test)


def read_cifar100(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read CIFAR-100 with its 100 fine labels from ``cifar-100-binary`` or ``cifar-100-python``, as CIFAR-10."""
    if (folder / "meta").exists():
        classes = _names(_dictionary(folder / "meta"), b"fine_label_names", folder / "meta")
        read, files = partial(_read_python, key=b"fine_labels"), ("train", "test")
    else:
        classes = _lines(folder / "fine_label_names.txt")
        read, files = partial(_read_binary, label_bytes=2), ("train.bin", "test.bin")  # the fine label is the second
    train, test = (_read(folder, [name], classes, read) for name in files)
    return Splits(*hold_out(train, validation, seed=seed), test)


def _read(
    folder: Path, names: Sequence[str], classes: tuple[str, ...], read: Callable[[Path], tuple[Tensor, Tensor]]
) -> ImageSet:
    """The images of some files; ``read`` gives the pixels and the labels of one."""
    images, labels = [], []
    for path in (folder / name for name in names):
        pixels, answers = read(path)
        _require_whole(path, len(answers), classes)
        check_labels(answers, len(classes), path)
        images.append(pixels)
        labels.append(answers)
    return ImageSet(torch.cat(images).view(-1, 3, 32, 32), torch.cat(labels), classes)


def _read_binary(path: Path, label_bytes: int) -> tuple[Tensor, Tensor]:
    record = label_bytes + _PIXELS
    raw = bytearray(_require(path).read_bytes())
    if len(raw) == 0 or len(raw) % record:
        raise DataError(
            f"{path}: {len(raw)} bytes are not a whole number of records of {record} bytes; "
            f"record {len(raw) // record} is cut short"
        )
    records = torch.frombuffer(raw, dtype=torch.uint8).view(-1, record)
    return records[:, label_bytes:], records[:, label_bytes - 1].long()


def _read_python(path: Path, key: bytes) -> tuple[Tensor, Tensor]:
    numpy = require("numpy", extra="train")
    batch = _dictionary(path)
    data, answers = batch.get(b"data"), batch.get(key)
    if not isinstance(data, numpy.ndarray) or data.dtype != numpy.uint8 or data.shape[1:] != (_PIXELS,):
        raise DataError(f"{path}: its 'data' must be a uint8 array of rows of {_PIXELS} pixels")
    if not isinstance(answers, list) or len(answers) != len(data) or not all(type(a) is int for a in answers):
        raise DataError(f"{path}: its {key.decode()!r} must be a list of {len(data)} whole numbers")
    return torch.from_numpy(data.copy()), torch.tensor(answers, dtype=torch.int64)


def _require_whole(path: Path, found: int, classes: tuple[str, ...]) -> None:
    """Refuse an official file that was cut between two records."""
    official = _RECORDS.get((len(classes), classes[0], classes[-1]), {}).get(path.stem, found)
    if found != official:
        raise DataError(
            f"{path}: has {found:,} records, but the official file has {official:,}; unpack the archive again, or give "
            f"the classes other names if this is a set of your own"
        )


def _dictionary(path: Path) -> dict[bytes, Any]:
    """The pickled dictionary; its keys are bytes where Python 2 wrote it, text where Python 3 did."""
    content = load_arrays(_require(path))
    if not isinstance(content, dict):
        raise DataError(f"{path}: must hold a dictionary, got {type(content).__name__}")
    return {key.encode(errors="replace") if isinstance(key, str) else key: value for key, value in content.items()}


def _names(meta: dict[bytes, Any], key: bytes, path: Path) -> tuple[str, ...]:
    names = meta.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, bytes | str) for name in names):
        raise DataError(f"{path}: its {key.decode()!r} must be a list of names")
    try:
        return tuple(name.decode() if isinstance(name, bytes) else name for name in names)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the names of its classes must be UTF-8: {error}") from error


def _lines(path: Path) -> tuple[str, ...]:
    names = tuple(read_text(_require(path)).split())
    if not names:
        raise DataError(f"{path}: must hold the name of one class per line, but is empty")
    return names


def _require(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"{path} is missing; unpack the archive again, all of its files are needed")
    return path
