"""Where data sets are, and fetching the ones that are not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pinets._extras import require
from pinets._files import PathLike, user_cache
from pinets.data.errors import DataError

__all__ = ["Fetch", "Remote", "data_folder", "fetch", "obtain_file", "obtain_folder"]

Fetch = Callable[[str, Path], None]  # of an address, to a file


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded.

    Args:
        urls: Where it is; the next is tried if one fails.
        checksum: Of the whole file, as ``"md5:..."`` or ``"sha256:..."``.
    """

    urls: tuple[str, ...]
    checksum: str

    @property
    def name(self) -> str:
        return self.urls[0].rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.urls[0]} ({self.checksum})"


def data_folder(given: PathLike | None = None) -> Path:
    """Where data sets are looked for: the given folder, or ``$PINETS_DATA``, or ``data`` in the user's cache.

    Example:
        >>> data_folder("sets").name
        'sets'
    """
    return Path(given or os.environ.get("PINETS_DATA") or user_cache("data")).expanduser()


def fetch(url: str, target: Path) -> None:
    """Download with pooch, showing how far it is on a terminal."""
    downloader = require("pooch", extra="train").HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    downloader(url, str(target), None)


def obtain_file(remote: Remote, folder: Path, fetch: Fetch) -> Path:
    """Make sure a file is in a folder; it appears there under its name once it is complete and its checksum right."""
    target = folder / remote.name
    if target.exists():
        _require_checksum(target, remote)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary:
        partial = Path(temporary) / remote.name
        for position, url in enumerate(remote.urls, start=1):
            try:
                fetch(url, partial)
                _require_checksum(partial, remote)
                break
            except (OSError, DataError):
                if position == len(remote.urls):
                    raise
        os.replace(partial, target)
    return target


def obtain_folder(remote: Remote, folder: Path, fetch: Fetch) -> None:
    """Make sure a folder is there: unpack the archive beside it, which is fetched, and afterwards removed, if need be.

    The folder appears once all of it is unpacked.
    """
    brought = (folder.parent / remote.name).exists()
    archive = obtain_file(remote, folder.parent, fetch)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder.parent) as temporary:
        if archive.suffix == ".zip":
            shutil.unpack_archive(archive, temporary)
        else:
            shutil.unpack_archive(archive, temporary, filter="data")
        inner = Path(temporary) / folder.name
        if not inner.is_dir():  # the archive has no folder of that name: all of it goes into one
            inner = Path(tempfile.mkdtemp(dir=temporary)) / folder.name
            inner.mkdir()
            for path in Path(temporary).iterdir():
                if path != inner.parent:
                    path.rename(inner / path.name)
        os.replace(inner, folder)
    if not brought:
        archive.unlink()


def _require_checksum(path: Path, remote: Remote) -> None:
    kind, _, expected = remote.checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        raise DataError(f"{path}: its {kind} is {found}, but that of {remote.urls[0]} is {expected}; it is damaged")
