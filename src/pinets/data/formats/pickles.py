"""Reading pickles that hold nothing but containers, numbers, strings and NumPy arrays.

Unpickling runs whatever the file says. The python version of CIFAR and the packs of faces are distributed as pickles,
so they are read by an unpickler that knows the few names a pickled array needs and refuses every other. Even these do
not reach NumPy, which would believe a file that calls its bytes pointers: arrays are rebuilt from their bytes, their
shape and the code of a plain number. A small file cannot ask for much: what it makes is limited by its size, and an
object that is used in many places is made once.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets.data.errors import DataError

__all__ = ["load_arrays"]

_KINDS = "biufcS"  # whole numbers, with and without sign, real and complex ones, truth values and bytes
_MOST_ITEMS = 10_000_000  # an item counts as often as it is used
_DEEPEST = 50  # levels of containers
_COPIES = 4  # bytes made for each byte of the file: text becomes bytes, which become an array


def load_arrays(path: Path) -> Any:
    """Unpickle a file of arrays; strings written by Python 2 come back as bytes."""
    content = path.read_bytes()
    try:
        _require_modest(content)
        return _Finisher(_COPIES * len(content)).finish(_ArrayUnpickler(content).load())[0]
    except _RefusedError as error:
        raise DataError(f"{path}: refused, it is not a pickle of plain arrays: {error}") from None
    except (OSError, ImportError):
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{path}: cannot be unpickled, it is damaged or cut short ({error})") from error


class _RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that is not an array, or for too much."""


def _require_modest(content: bytes) -> None:
    """Refuse what would exhaust the unpickler itself: its memo, or the stack on which it hashes nested tuples."""
    depths: list[int] = []  # of the objects on the unpickler's stack, as far as they are nested when they are made
    marks: list[int] = []
    memo: dict[int, int] = {}
    for number, (operation, argument, _) in enumerate(pickletools.genops(content)):
        name = operation.name
        if number > _MOST_ITEMS:
            raise _RefusedError(f"it has more than {_MOST_ITEMS:,} items")
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            place = len(memo) if name == "MEMOIZE" else argument or 0
            if place > number:
                raise _RefusedError(f"it numbers its objects with gaps, up to {place:,}")
            memo[place] = depths[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            depths.append(memo[argument or 0])
        elif name == "MARK":
            marks.append(len(depths))
        elif name not in ("PROTO", "FRAME", "STOP"):
            before = operation.stack_before
            first = marks.pop() if pickletools.markobject in before else len(depths)
            first -= sum(entry not in (pickletools.markobject, pickletools.stackslice) for entry in before)
            taken = depths[max(first, 0) :]
            del depths[max(first, 0) :]
            depth = max((taken[0], *(inner + 1 for inner in taken[1:])) if taken else (0,))
            if name.startswith(("TUPLE", "FROZENSET")):
                depth = max(taken, default=0) + 1
            if depth > _DEEPEST:
                raise _RefusedError(f"its containers are nested more than {_DEEPEST} levels deep")
            depths += [depth] * len(operation.stack_after)


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = _COPIES * len(content)

    def find_class(self, module: str, name: str) -> Any:
        part = module.replace("numpy._core", "numpy.core")  # as NumPy 2 calls it
        if (part, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in Python 2's protocol
            return self._latin1
        if (part, name) not in _KNOWN:
            raise _RefusedError(f"it asks for {module}.{name}")
        return _KNOWN[part, name]

    def _latin1(self, text: Any, encoding: Any) -> bytes:
        if encoding not in ("latin1", b"latin1"):
            raise _RefusedError(f"it encodes text as {encoding!r}")
        encoded = str(text).encode("latin1")
        self._left -= len(encoded)
        if self._left < 0:
            raise _RefusedError("it makes more bytes than it has itself")
        return encoded


class _Dtype:
    """The type of an array's numbers, from its code and byte order; everything else in the pickle is ignored."""

    def __init__(self, code: Any, *_: Any) -> None:
        code = _text(code)
        if len(code) > 20:
            raise _RefusedError("it holds an array of an unknown type")
        self.plain = require("numpy", extra="train").dtype(code)
        if self.plain.kind not in _KINDS:
            what = "Python objects" if self.plain.hasobject else self.plain
            raise _RefusedError(f"it holds an array of {what}, not of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.plain = self.plain.newbyteorder(_text(state[1]))


class _Array:
    """An array that is yet to get its content, which it does not copy."""

    made: Any = None

    def __init__(self, *_: Any) -> None:
        pass  # NumPy's own function would make an empty array here

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, content = state
        self.made = _view(content, dtype, shape, "F" if is_fortran else "C")


def _from_bytes(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.made = _view(content, dtype, shape, _text(order))
    return array


def _view(content: Any, dtype: Any, shape: Any, order: str) -> Any:
    if not isinstance(dtype, _Dtype):
        raise _RefusedError("it holds an array of an unknown type")
    return require("numpy", extra="train").ndarray(shape, dtype.plain, buffer=content, order=order)


def _number(dtype: Any, content: Any) -> Any:
    number = _view(content, dtype, (), "C")
    if number.nbytes > 16:
        raise _RefusedError(f"it holds a number of {number.nbytes} bytes")
    return number[()]


class _Finisher:
    """Puts arrays in their places. What is used in many places is copied once, and counted each time."""

    def __init__(self, most_bytes: int) -> None:
        self.left = most_bytes
        self.done: dict[int, tuple[Any, int]] = {}

    def finish(self, value: Any, depth: int = 0) -> tuple[Any, int]:
        """The unpickled value with its arrays, and its number of items."""
        if not isinstance(value, _Array | list | tuple | dict):
            return value, 1
        if id(value) not in self.done:
            if depth > _DEEPEST:
                raise _RefusedError(f"its containers are nested more than {_DEEPEST} levels deep, or hold themselves")
            made, items = self._array(value) if isinstance(value, _Array) else self._container(value, depth + 1)
            if items > _MOST_ITEMS:
                raise _RefusedError(f"it has more than {_MOST_ITEMS:,} items")
            self.done[id(value)] = made, items
        return self.done[id(value)]

    def _array(self, value: _Array) -> tuple[Any, int]:
        if value.made is None:
            raise _RefusedError("it holds an array without content")
        self.left -= value.made.nbytes
        if self.left < 0:
            raise _RefusedError("it makes more bytes than it has itself")
        return value.made.copy(order="K"), 1

    def _container(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any], depth: int) -> tuple[Any, int]:
        parts = [self.finish(item, depth) for item in (value.values() if isinstance(value, dict) else value)]
        finished = [item for item, _ in parts]
        made = dict(zip(value, finished, strict=True)) if isinstance(value, dict) else type(value)(finished)
        return made, 1 + sum(items for _, items in parts)


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
    ("__builtin__", "bytes"): _no_bytes,  # how Python 3 writes no bytes in Python 2's protocol
}
