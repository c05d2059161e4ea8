"""Errors of data files; every message names the file, and the record if there is one."""

from __future__ import annotations

__all__ = ["DataError", "MissingDataError", "TooFewSamplesError"]


class DataError(ValueError):
    """A data file exists, but its content cannot be used."""


class MissingDataError(FileNotFoundError):
    """A data file is missing and could not be downloaded; the message says what to put where."""


class TooFewSamplesError(DataError):
    """A dataset is too small to be divided."""
