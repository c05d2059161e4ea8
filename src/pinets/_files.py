"""Files: written atomically, so that the old content or the new one is there; and the folder of our cache."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path

__all__ = ["PathLike", "user_cache", "write_bytes", "write_pieces"]

PathLike = str | os.PathLike[str]


def write_bytes(path: PathLike, content: bytes) -> None:
    """Replace a file atomically: write beside it, flush to the disk, rename over it. Missing folders are made."""
    write_pieces(path, [content])


def write_pieces(path: PathLike, pieces: Iterable[bytes]) -> None:
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


def user_cache(part: str) -> Path:
    """Where what can be made again is kept: ``$PINETS_CACHE/part``, or ``pinets/part`` in the user's cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PINETS_CACHE") or Path(caches) / "pinets").expanduser() / part
