"""What can go wrong, by name; no message says anything about keys, inputs or weights beyond sizes and ranges."""

from __future__ import annotations

__all__ = ["EncryptedError", "FileError", "KeyMismatchError", "NotCompilableError", "PlanError", "RangeWarning"]


class EncryptedError(ValueError):
    """Something about encrypted inference that cannot be done."""


class NotCompilableError(EncryptedError):
    """A network that is no polynomial, or not one made of linear maps and element-wise products."""


class PlanError(EncryptedError):
    """No parameters fit what was asked for; the message says why, and what the nearest is that would."""


class FileError(EncryptedError):
    """A file that is truncated, changed, of another kind or of another version."""


class KeyMismatchError(EncryptedError):
    """Files that belong to other keys, or to another plan."""


class RangeWarning(UserWarning):
    """An input outside the range the plan was made for, or an output that shows it."""
