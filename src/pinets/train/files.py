"""JSON files, checksums, and being sure that what was written is on the disk."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pinets._files import write_bytes

__all__ = ["checksum", "flush_folder", "flush_to_disk", "read_json", "write_json"]


def write_json(path: Path, content: Any) -> None:
    """Replace a JSON file atomically. Floats are written so that they read back to the same bits."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())
    flush_folder(path.parent)


def read_json(path: Path) -> Any:
    """The content of a JSON file; where it does not parse, an error that names the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # JSON and Unicode errors are both ValueErrors
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def flush_to_disk(path: Path) -> None:
    """Return only when the file's content is on the disk and not in a cache of the system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """As :func:`flush_to_disk`, for the names in a folder; a no-op where folders cannot be opened (Windows)."""
    if os.name == "posix":
        flush_to_disk(folder)


def checksum(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
