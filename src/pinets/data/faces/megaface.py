"""MegaFace's lists: probes with their people, distractors, the images that are known to be wrong, and its features."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from pinets._extras import require
from pinets._files import PathLike, write_pieces
from pinets.data.errors import DataError, MissingDataError
from pinets.data.faces.text import read_text

__all__ = ["ImageList", "keep", "read_image_list", "read_noises", "write_features"]

_HEADER = struct.Struct("<4i")  # rows, columns, bytes in a value, OpenCV's number for float32
_FLOAT = (1, 4, 5)


@dataclass(frozen=True, eq=False)
class ImageList:
    """Images by their paths, and the number of the person each shows: for distractors the folder they stand in."""

    paths: tuple[str, ...]
    people: Tensor


def read_image_list(path: PathLike) -> ImageList:
    """Read ``facescrub_features_list.json``, ``megaface_features_list.json_1000000_1``, or a text of one path a line.

    JSON holds ``path``, and ``id`` where the people are known; otherwise the folder an image stands in is the person.
    """
    path = Path(path)
    text = read_text(path)
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}: is not JSON ({error})") from error
        names = _texts(content.get("path", []), path, "path")
        people = _texts(content.get("id") or _folders(names), path, "id")
    else:
        names = [line.strip() for line in text.splitlines() if line.strip()]
        people = _folders(names)
    if not names or len(people) != len(names):
        raise DataError(f"{path}: names {len(names)} images and {len(people)} people")
    number = {person: place for place, person in enumerate(dict.fromkeys(people))}
    return ImageList(tuple(names), torch.tensor([number[person] for person in people]))


def read_noises(path: PathLike) -> frozenset[str]:
    """Read ``facescrub_noises.txt`` or ``megaface_noises.txt``: a path or a name a line, after a tab if there is one.

    Lines that begin with # are comments.
    """
    lines = (line.strip() for line in read_text(path).splitlines())
    return frozenset(line.split("\t")[-1].strip() for line in lines if line and not line.startswith("#"))


def keep(images: ImageList, noises: frozenset[str]) -> Tensor:
    """Which images are not noises, by number. A noise names an image by its path or the end of it.

    >>> images = ImageList(("100/a/1.jpg", "100/b/1.jpg", "100/b/2.jpg"), torch.tensor([0, 1, 1]))
    >>> keep(images, frozenset({"b/1.jpg"}))
    tensor([0, 2])
    """

    def noisy(path: str) -> bool:
        parts = PurePosixPath(path).parts
        return any("/".join(parts[start:]) in noises for start in range(len(parts)))

    return torch.tensor([number for number, path in enumerate(images.paths) if not noisy(path)], dtype=torch.int64)


def write_features(folder: PathLike, paths: Sequence[str], ending: str, out: PathLike) -> None:
    """Gather the features that MegaFace's tools write, a file for each image, in one ``.npy`` of a row each.

    Args:
        folder: Holds ``PATH + ending``, OpenCV's matrices of float32.
        paths: Of the images, in the order of the rows.
        ending: What follows an image's path in the name of its features, as ``_resnet50.bin``.
        out: Written row by row, and there once it is complete: nothing is held in memory.
    """
    folder = Path(folder)
    write_pieces(out, _npy_pieces([folder / f"{path}{ending}" for path in paths]))


def _texts(values: Any, path: Path, key: str) -> list[str]:
    """The list that stands in a JSON file under a key; people may be called by numbers."""
    if not isinstance(values, list):
        raise DataError(f"{path}: {key!r} must be a list, got {type(values).__name__}")
    for value in values:
        if not isinstance(value, str) and not (key == "id" and isinstance(value, int)):
            raise DataError(f"{path}: {key!r} must be a list of texts, got {value!r}")
    return values


def _folders(names: Sequence[str]) -> list[str]:
    return [str(PurePosixPath(name).parent) for name in names]


def _npy_pieces(paths: Sequence[Path]) -> Iterator[bytes]:
    """NumPy's header, then the rows, whose bytes are those of the files."""
    numpy = require("numpy", extra="train")
    width = len(_read_feature(paths[0])) // 4
    header = io.BytesIO()
    form = {"descr": "<f4", "fortran_order": False, "shape": (len(paths), width)}
    numpy.lib.format.write_array_header_1_0(header, form)
    yield header.getvalue()
    for path in paths:
        feature = _read_feature(path)
        if len(feature) != 4 * width:
            raise DataError(f"{path}: has {len(feature) // 4} values, the first has {width}")
        yield feature


def _read_feature(path: Path) -> bytes:
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    content = path.read_bytes()
    if len(content) < _HEADER.size:
        raise DataError(f"{path}: is too short for a matrix")
    count, *form = _HEADER.unpack_from(content)
    if tuple(form) != _FLOAT or len(content) != _HEADER.size + 4 * count:
        raise DataError(f"{path}: expected a column of float32, got {count} x {form[0]}, {len(content)} bytes")
    return content[_HEADER.size :]
