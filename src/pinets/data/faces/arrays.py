"""Embeddings from anywhere: NumPy's ``.npy``, mapped into memory, so that a gallery may be larger than it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError

__all__ = ["ChosenRows", "open_embeddings"]


def open_embeddings(path: PathLike) -> Any:
    """Open a matrix of numbers, one row for each image; what is read is read from the disk when it is used.

    Arrays of Python objects, which are pickles, are refused.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    numpy = require("numpy", extra="train")
    try:
        array = numpy.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise DataError(f"{path}: is not a .npy file of plain numbers ({error})") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(f"{path}: expected a matrix of numbers, one row each image, got {array.shape} {array.dtype}")
    return array


class ChosenRows:
    """Some rows of a matrix, read only as they are sliced.

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
