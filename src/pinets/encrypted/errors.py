"""Errors and warnings of encrypted inference. Messages give sizes and ranges, never keys, inputs or weights."""

from __future__ import annotations

__all__ = ["EncryptedError", "FileError", "KeyMismatchError", "NotCompilableError", "PlanError", "RangeWarning"]


class EncryptedError(ValueError):
    """Base class of the errors of encrypted inference."""


class NotCompilableError(EncryptedError):
    """The network is not a polynomial made of linear maps and element-wise products."""


class PlanError(EncryptedError):
    """No parameters meet the request; the message says why, and names the nearest request that can be met."""


class FileError(EncryptedError):
    """A file is truncated, changed, malformed, or of another kind or version."""


class KeyMismatchError(EncryptedError):
    """Files belong to other keys or to another plan."""


class RangeWarning(UserWarning):
    """An input is outside the range of the plan, or an output may be wrong."""
