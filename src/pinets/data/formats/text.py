"""Text files."""

from __future__ import annotations

from pathlib import Path

from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError

__all__ = ["read_text"]


def read_text(path: PathLike) -> str:
    """The text of a file in UTF-8."""
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: must be text in UTF-8, but byte {error.start} is none") from error
