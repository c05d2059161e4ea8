"""The idx format of MNIST: a magic number, the sizes, then unsigned bytes; plain or compressed with gzip."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from pinets.data.errors import DataError, MissingDataError

__all__ = ["find_idx", "read_idx"]

_UNSIGNED_BYTE = 0x08
_MOST_BYTES, _MOST_TIMES = 1 << 28, 100  # limits for compressed data: bytes in all, or bytes for each byte of the file


def find_idx(folder: Path, name: str) -> Path:
    """The file of that name, plain or with ``.gz``."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise MissingDataError(f"{folder / name} is missing; it may also be compressed, as {name}.gz")


def read_idx(path: Path, *, dimensions: int) -> Tensor:
    """Read an idx file of unsigned bytes.

    Args:
        path: The file; one that starts as gzip files do is decompressed.
        dimensions: How many sizes it must have: 1 for labels, 3 for images.
    """
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            header = file.read(4 + 4 * dimensions)
            magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
            if header[:4] != magic:
                raise DataError(
                    f"{path}: starts with {header[:4].hex(' ')}, but idx files of unsigned bytes in {dimensions} "
                    f"dimensions start with {magic.hex(' ')}"
                )
            if len(header) < 4 + 4 * dimensions:
                raise DataError(f"{path}: cut short within its header, after {len(header)} bytes")
            sizes = struct.unpack(f">{dimensions}I", header[4:])
            count = math.prod(sizes)
            size = path.stat().st_size
            if count > (max(_MOST_BYTES, _MOST_TIMES * size) if compressed else size):
                raise DataError(
                    f"{path}: its header asks for {' x '.join(map(str, sizes))} bytes, too many for a file of {size}; "
                    "it is damaged"
                )
            body = file.read(count + 1)  # one more than announced, to see whether there is more
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: its compressed data is damaged or cut short ({error})") from error
    if len(body) != count:
        found = "more" if len(body) > count else str(len(body))
        raise DataError(f"{path}: its header announces {count} bytes ({' x '.join(map(str, sizes))}), found {found}")
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(sizes) if count else torch.empty(sizes).byte()
