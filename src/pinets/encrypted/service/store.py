"""The clients' evaluation keys on disk: under a quota, with a time to live, the longest unused removed first."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pinets.encrypted.plan import in_units

__all__ = ["KeyStore", "StoreFullError", "Upload"]

_NAME = re.compile(r"[0-9a-f]{32}")
_ENDING, _UNFINISHED = ".keys", ".part"


class StoreFullError(OSError):
    """There is no room for further keys."""


class Upload:
    """A file of keys that is being written. It gets its name in the store by :meth:`keep`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def finish(self) -> Path:
        """Write everything to the disk; gives the path to check the content at."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.path

    def keep(self) -> str:
        """Put the file in the store; gives its id."""
        name = secrets.token_hex(16)
        os.replace(self.path, self.path.with_name(name + _ENDING))
        return name


class KeyStore:
    """Evaluation keys by id. The time of a file is that of its last use, so a restart forgets nothing.

    Args:
        folder: Where the files are; made with owner-only rights.
        quota: The most bytes of all files together.
        seconds: How long unused keys are kept.
        clock: The current time.
    """

    def __init__(self, folder: Path, *, quota: int, seconds: float, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.quota, self.seconds, self._clock = folder, quota, seconds, clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left_over in folder.glob(f"*{_UNFINISHED}"):
            left_over.unlink()
        self._reserved = 0
        self._in_use: Counter[Path] = Counter()
        self.remove_expired()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def __len__(self) -> int:
        return len(self._files())

    @contextmanager
    def upload(self, size: int) -> Iterator[Upload]:
        """A file to write up to a number of bytes to. Unless it is kept, nothing remains of it."""
        if size > self.quota:
            raise StoreFullError(f"keys of {in_units(size)} exceed the quota of {in_units(self.quota)}")
        self._make_room(size)
        path = self.folder / (secrets.token_hex(16) + _UNFINISHED)
        self._reserved += size
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                yield Upload(path, file)
        finally:
            self._reserved -= size
            path.unlink(missing_ok=True)

    @contextmanager
    def using(self, name: str) -> Iterator[Path]:
        """The file of an id, which is not removed inside.

        Raises:
            KeyError: There are no such keys, or they have expired.
        """
        path = self.folder / (name + _ENDING)
        if not _NAME.fullmatch(name) or not path.is_file():
            raise KeyError(name)
        if path.stat().st_mtime < self._clock() - self.seconds:
            path.unlink(missing_ok=True)
            raise KeyError(name)
        os.utime(path, (self._clock(), self._clock()))
        self._in_use[path] += 1
        try:
            yield path
        finally:
            self._in_use[path] -= 1
            self._in_use += Counter()  # drops zeros

    def remove_expired(self) -> None:
        """Remove the keys that were not used for their time to live."""
        for used, _, path in self._files():
            if used < self._clock() - self.seconds and not self._in_use[path]:
                path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        self.remove_expired()
        files = self._files()
        total = sum(held for _, held, _ in files) + self._reserved
        for _, held, path in files:
            if total + size <= self.quota:
                return
            if not self._in_use[path]:
                path.unlink(missing_ok=True)
                total -= held
        if total + size > self.quota:
            raise StoreFullError(
                f"keys of {in_units(size)} do not fit: others that are in use or on their way take {in_units(total)} "
                f"of the quota of {in_units(self.quota)}"
            )

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of the last use, size and path of all files, the longest unused first."""
        found = []
        for path in self.folder.glob(f"*{_ENDING}"):
            with suppress(FileNotFoundError):
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        return sorted(found)
