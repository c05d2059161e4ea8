"""Bytes on the disk: atomic writes, flushing, and the folder of our cache."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "PathLike",
    "flush_folder",
    "flush_to_disk",
    "make_writable_folder",
    "replacing",
    "user_cache",
    "write_bytes",
    "write_pieces",
]

PathLike = str | os.PathLike[str]


def write_bytes(path: PathLike, content: bytes) -> None:
    """Replace a file atomically: write beside it, flush to the disk, rename over it."""
    write_pieces(path, [content])


def write_pieces(path: PathLike, pieces: Iterable[bytes]) -> None:
    """As :func:`write_bytes`, for content in pieces, which are not joined in memory."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.writelines(pieces)


@contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """The path of a file to write, which then replaces the one at ``path`` atomically. Missing folders are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # the error that was first is the one to tell
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the name that the caller knows
        raise


def make_writable_folder(path: PathLike) -> None:
    """Make a folder that results will go to, and refuse one that cannot be written to before they are computed."""
    Path(path).mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def flush_to_disk(path: Path) -> None:
    """Return only when the file's content is on the disk and not in a cache of the system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk; does nothing where folders cannot be opened (Windows)."""
    if os.name == "posix":
        flush_to_disk(folder)


def user_cache(part: str) -> Path:
    """The folder ``$PINETS_CACHE/part``, or ``pinets/part`` in the user's cache, for what can be made again."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PINETS_CACHE") or Path(caches) / "pinets").expanduser() / part
