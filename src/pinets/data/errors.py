"""What goes wrong with data files; every message names the file, and the record where there is one."""

from __future__ import annotations

__all__ = ["DataError", "MissingDataError", "TooFewSamplesError"]


class DataError(ValueError):
    """A data file is there, but what it holds cannot be used."""


class MissingDataError(FileNotFoundError):
    """A data file is not there, and could not be fetched; the message says what to put where."""


class TooFewSamplesError(DataError):
    """A set is too small to be divided; raised where its folder is not known, which :func:`load` adds."""
