"""NumPy's ``.npy`` files, mapped into memory: nothing in them is executed, and no more is read than is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError

__all__ = ["open_array"]


def open_array(path: PathLike) -> Any:
    """Open an array of numbers, which is read from the disk when it is used. Arrays of Python objects are refused."""
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}")
    numpy = require("numpy", extra="train")
    try:
        array = numpy.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # NumPy parses the header as Python's literals: a damaged one raises nearly anything
        why = "" if "magic string" in str(error) else f" ({error})"  # another kind of file, such as an image
        raise DataError(f"{path}: is not a .npy file of plain numbers{why}") from error
    if array.dtype.kind not in "fiu":
        raise DataError(f"{path}: must hold numbers, got {array.dtype}")
    return array
