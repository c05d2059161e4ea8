"""Embeddings: computing them, opening those of other models, and reading rows in blocks, checked and of length one."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets._files import PathLike, write_pieces
from pinets._modes import evaluating
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.npy import open_array
from pinets.data.samples import SampleSet, read_fixed
from pinets.data.transforms import Normalize

__all__ = [
    "FACE_PIXELS",
    "ChosenRows",
    "Matrix",
    "Summed",
    "embed",
    "embed_faces",
    "open_embeddings",
    "raw_rows",
    "read_blocks",
    "read_rows",
    "require_finite_rows",
    "write_features",
]

FACE_PIXELS = Normalize((127.5 / 255,) * 3, (128 / 255,) * 3)  # of bytes: (x - 127.5) / 128

Matrix: TypeAlias = Any  # a tensor, a NumPy array, or a memory-mapped one: has a shape and can be sliced

_SAFE = 1e-15, 1e15  # lengths of rows whose squares are ordinary float32 numbers
_HEADER = struct.Struct("<4i")  # of OpenCV's files: rows, columns, bytes in a value, type
_FLOAT_COLUMN = (1, 4, 5)  # one column of float32


# Computing


@torch.inference_mode()
def embed(network: nn.Module, batches: Iterable[Tensor], *, flip: bool = True) -> Tensor:
    """The embeddings of images, in evaluation mode.

    Args:
        network: From images (N, C, H, W) to embeddings (N, D).
        batches: Images as the network takes them, on any device.
        flip: Add the embedding of the mirror image, as published.

    Example:
        >>> flatten = nn.Flatten()
        >>> embed(flatten, [torch.tensor([[[[1.0, 2.0]]]])])  # (1, 2) + (2, 1)
        tensor([[3., 3.]])
    """
    parameter = next(network.parameters(), torch.empty(0))
    found = []
    with evaluating(network):
        for images in batches:
            images = images.to(parameter.device)
            rows = network(images)
            if flip:
                rows = rows + network(images.flip(-1))
            found.append(rows.float().cpu())
    if not found:
        raise ValueError("there are no images to embed")
    return torch.cat(found)


def embed_faces(network: nn.Module, faces: SampleSet, *, flip: bool = True, batch: int = 64) -> Tensor:
    """The embeddings of a set of images of bytes, in order; pixels are normalised as (x - 127.5) / 128.

    Args:
        network: From images (N, 3, H, W) to embeddings (N, D).
        faces: The images.
        flip: Add the embedding of the mirror image, as published.
        batch: Images at a time; only speed and memory depend on it.
    """
    parts = torch.arange(len(faces)).split(batch)
    return embed(network, (FACE_PIXELS(read_fixed(faces, part)) for part in parts), flip=flip)


# Reading rows


def read_rows(matrix: Matrix, start: int = 0, stop: int | None = None) -> Tensor:
    """Some rows as float32, divided by their length; a row of zeros stays zero, and so is similar to nothing.

    A value that is not finite is an error that names its row: a NaN compares false with everything, and would count as
    a rejection, right or wrong by chance.

    >>> read_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000], [0.0000, 0.0000]])
    >>> read_rows(torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]))
    Traceback (most recent call last):
    ...
    ValueError: embeddings must be finite: 1 of 2 rows are not, the first is row 1
    """
    rows = raw_rows(matrix, start, stop)
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if lengths.numel() and not (lengths.min() > _SAFE[0] and lengths.max() < _SAFE[1]):  # also for NaN
        require_finite_rows(rows, start)
        largest = rows.abs().amax(dim=1, keepdim=True)
        rows = rows / torch.where(largest > 0, largest, 1.0)  # or the squares are not float32 numbers
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        lengths = torch.where(lengths > 0, lengths, 1.0)
    return rows / lengths


def raw_rows(matrix: Matrix, start: int = 0, stop: int | None = None) -> Tensor:
    """Some rows as float32, not normalised."""
    if len(matrix.shape) != 2:
        raise ValueError(f"embeddings must be a matrix, one row for each image, got shape {tuple(matrix.shape)}")
    part = matrix[start:stop]
    if not isinstance(part, Tensor):
        part = torch.from_numpy(part.astype("float32", subok=False))  # a copy, of any type and byte order
    return part.detach().to("cpu", torch.float32)


class Summed:
    """The sum of two matrices, such as embeddings of images and of their mirror images, computed when it is sliced.

    >>> both = Summed(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[10, 20], [30, 40]]))
    >>> both.shape, both[1:2]
    ((2, 2), tensor([[33., 44.]]))
    """

    def __init__(self, first: Matrix, second: Matrix) -> None:
        if first.shape != second.shape:
            raise ValueError(f"only matrices of one shape can be added, got {first.shape} and {second.shape}")
        self.first, self.second = first, second

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.first.shape
        return rows, columns

    def __getitem__(self, part: slice) -> Tensor:
        return raw_rows(self.first, part.start or 0, part.stop) + raw_rows(self.second, part.start or 0, part.stop)


def require_finite_rows(rows: Tensor, start: int = 0) -> None:
    """Raise an error that names the first row that is not finite; ``start`` is the number of the first row given."""
    broken = (~rows.isfinite().all(dim=1)).nonzero()
    if len(broken):
        raise ValueError(
            f"embeddings must be finite: {len(broken)} of {len(rows)} rows are not, the first is row "
            f"{start + int(broken[0])}"
        )


def read_blocks(matrix: Matrix, size: int) -> Iterator[tuple[int, Tensor]]:
    """The normalised rows, ``size`` at a time, each block with the number of its first row."""
    for start in range(0, matrix.shape[0], size):
        yield start, read_rows(matrix, start, start + size)


# Files


def open_embeddings(path: PathLike) -> Any:
    """Open a ``.npy`` matrix, one row for each image, mapped into memory: it may be larger than the memory.

    Arrays of Python objects, which are pickles, are refused.
    """
    array = open_array(path)
    if array.ndim != 2:
        raise DataError(f"{path}: expected a matrix of numbers, one row each image, got {array.shape} {array.dtype}")
    return array


class ChosenRows:
    """Some rows of a matrix, read when they are sliced.

    >>> import numpy as np
    >>> some = ChosenRows(np.arange(6).reshape(3, 2), np.array([0, 2]))
    >>> some.shape, some[1:2].tolist()
    ((2, 2), [[4, 5]])
    """

    def __init__(self, matrix: Any, rows: Any) -> None:
        self.matrix, self.rows = matrix, rows

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.matrix.shape[1]

    def __getitem__(self, part: slice) -> Any:
        return self.matrix[self.rows[part]]


def write_features(folder: PathLike, paths: Sequence[str], ending: str, out: PathLike) -> None:
    """Gather the features that MegaFace's tools write, a file for each image, in one ``.npy``, a row for each image.

    Args:
        folder: Holds ``PATH + ending``, OpenCV's matrices of float32.
        paths: The paths of the images, in the order of the rows.
        ending: The end of the names of feature files, after the image's path, as ``_resnet50.bin``.
        out: Written row by row; it appears when it is complete.
    """
    folder = Path(folder)
    write_pieces(out, _npy_pieces([folder / f"{path}{ending}" for path in paths]))


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
    if tuple(form) != _FLOAT_COLUMN or len(content) != _HEADER.size + 4 * count:
        raise DataError(f"{path}: expected a column of float32, got {count} x {form[0]}, {len(content)} bytes")
    return content[_HEADER.size :]
