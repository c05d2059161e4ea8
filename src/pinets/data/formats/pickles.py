"""Reading pickles that hold nothing but containers, numbers, strings and NumPy arrays.

Unpickling runs whatever the file says. The python version of CIFAR and the packs of faces are distributed as pickles,
so they are read by an unpickler that knows the few names a pickled array needs and refuses every other. Even these do
not reach NumPy, which would believe a file that calls its bytes pointers: arrays are rebuilt from their bytes, their
shape and the code of a plain number.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets.data.errors import DataError

__all__ = ["load_arrays"]

_KINDS = "biufcS"  # whole numbers, with and without sign, real and complex ones, truth values and bytes


def load_arrays(path: Path) -> Any:
    """Unpickle a file of arrays; strings written by Python 2 come back as bytes."""
    try:
        return _finished(_ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load())
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
        part = module.replace("numpy._core", "numpy.core")  # as NumPy 2 calls it
        if (part, name) not in _KNOWN:
            raise _RefusedError(f"it asks for {module}.{name}")
        return _KNOWN[part, name]


class _Dtype:
    """The type of an array's numbers, from its code; of what else a pickle says of it, the order of bytes alone."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.plain = require("numpy", extra="train").dtype(_text(code))
        if self.plain.kind not in _KINDS:
            what = "Python objects" if self.plain.hasobject else self.plain
            raise _RefusedError(f"it holds an array of {what}, not of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.plain = self.plain.newbyteorder(_text(state[1]))


class _Array:
    """An array that is yet to get its content."""

    made: Any = None

    def __init__(self, *_: Any) -> None:
        pass  # of an empty array, which NumPy's own function would make here

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, content = state
        self.made = _from_bytes(content, dtype, shape, "F" if is_fortran else "C")


def _from_bytes(content: Any, dtype: Any, shape: Any, order: Any) -> Any:
    if not isinstance(dtype, _Dtype):
        raise _RefusedError("it holds an array of an unknown type")
    numpy = require("numpy", extra="train")
    return numpy.ndarray(shape, dtype.plain, buffer=content, order=_text(order)).copy(order="K")


def _number(dtype: Any, content: Any) -> Any:
    return _from_bytes(content, dtype, (), "C")[()]


def _finished(value: Any) -> Any:
    """What was unpickled, with its arrays."""
    if isinstance(value, _Array):
        if value.made is None:
            raise _RefusedError("it holds an array without content")
        return value.made
    if isinstance(value, (list, tuple)):
        return type(value)(map(_finished, value))
    if isinstance(value, dict):
        return {key: _finished(item) for key, item in value.items()}
    return value


def _latin1(text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise _RefusedError(f"it encodes text as {encoding!r}")
    return str(text).encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _text(value: Any) -> str:
    """Text, which Python 2 wrote as bytes."""
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


_KNOWN = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy.core.numeric", "_frombuffer"): _from_bytes,  # from Python 3.8 on
    ("_codecs", "encode"): _latin1,  # how Python 3 writes bytes in Python 2's protocol
    ("__builtin__", "bytes"): _no_bytes,  # and how it writes none
}
