"""Writing files so that whatever happens, the old content or the new one is there, never half of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_bytes", "write_pieces"]


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file atomically: write beside it, flush to the disk, rename over it. Missing folders are made."""
    write_pieces(path, [content])


def write_pieces(path: str | os.PathLike[str], pieces: Iterable[bytes]) -> None:
    """As :func:`write_bytes`, for content in pieces, which are not joined in memory."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
