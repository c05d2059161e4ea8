"""What goes wrong with data files; every message names the file, and the record where there is one."""

from __future__ import annotations

__all__ = ["DataError", "MissingDataError"]


class DataError(ValueError):
    """A data file is there, but what it holds cannot be used."""


class MissingDataError(FileNotFoundError):
    """A data file is not there, and could not be fetched; the message says what to put where."""
