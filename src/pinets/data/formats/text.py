"""Text files, and tables in them."""

from __future__ import annotations

import csv
from pathlib import Path

from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError

__all__ = ["read_table", "read_text"]


def read_text(path: PathLike) -> str:
    """The text of a file in UTF-8."""
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: must be text in UTF-8, but byte {error.start} is none") from error


def read_table(path: PathLike) -> list[list[str]]:
    """The cells of a file of comma-separated values, line by line; a blank line has none."""
    try:
        return list(csv.reader(read_text(path).removeprefix("\ufeff").splitlines()))
    except csv.Error as error:
        raise DataError(f"{path}: must be comma-separated values ({error})") from error
