"""Writing files so that whatever happens, the old content or the new one is there, never half of it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

__all__ = ["write_bytes"]


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file atomically: write beside it, flush to the disk, rename over it. Missing folders are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
