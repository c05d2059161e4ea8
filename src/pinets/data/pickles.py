"""Reading pickles that hold nothing but containers, numbers, strings and NumPy arrays.

Unpickling runs whatever the file says. The python version of CIFAR is distributed as pickles, so they are read by an
unpickler that knows the three names a pickled array needs and refuses every other.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets.data.errors import DataError

__all__ = ["load_arrays"]

_NUMPY_MODULES = {"numpy", "numpy.core.multiarray", "numpy._core.multiarray"}


def load_arrays(path: Path) -> Any:
    """Unpickle a file of arrays; strings written by Python 2 come back as bytes."""
    try:
        return _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except _RefusedError as error:
        raise DataError(f"{path}: refused, it is not a pickle of plain arrays: {error}") from None
    except (OSError, ImportError):
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{path}: cannot be unpickled, it is damaged or cut short ({error})") from error


class _RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that is not an array."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        numpy = require("numpy", extra="train")
        if module in _NUMPY_MODULES and name == "_reconstruct":
            return numpy.empty(0).__reduce__()[0]  # wherever this version of NumPy keeps it
        if (module, name) == ("numpy", "ndarray"):
            return numpy.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in Python 2's protocol
            return _latin1
        raise _RefusedError(f"it asks for {module}.{name}")


def _plain_dtype(code: Any, align: Any = False, copy: Any = False) -> Any:
    """Old pickles say 0 and 1 where NumPy now wants booleans."""
    dtype = require("numpy", extra="train").dtype(code, bool(align), bool(copy))
    if dtype.hasobject:
        raise _RefusedError(f"it holds an array of Python objects ({dtype})")
    return dtype


def _latin1(text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise _RefusedError(f"it encodes text as {encoding!r}")
    return str(text).encode("latin1")
