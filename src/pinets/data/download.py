"""Where datasets are, and downloading those that are missing."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from pinets._extras import require
from pinets._files import PathLike, user_cache
from pinets._storage import checksum
from pinets.data.errors import DataError

__all__ = [
    "Fetch",
    "Remote",
    "data_folder",
    "fetch",
    "is_offline",
    "made_folder",
    "obtain_file",
    "obtain_folder",
    "offline",
]

Fetch = Callable[[str, Path], None]  # downloads an address to a file
_TIMEOUT = 30  # seconds
_OFFLINE = ContextVar("offline", default=False)


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded.

    Args:
        urls: Its addresses; the next is tried if one fails.
        checksum: The checksum of the whole file, as ``"md5:..."`` or ``"sha256:..."``.
    """

    urls: tuple[str, ...]
    checksum: str

    @property
    def name(self) -> str:
        return self.urls[0].rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.urls[0]} ({self.checksum})"


def data_folder(given: PathLike | None = None) -> Path:
    """The folder of all datasets: the given one, or ``$PINETS_DATA``, or ``data`` in the user's cache.

    Example:
        >>> data_folder("sets").name
        'sets'
    """
    return Path(given or os.environ.get("PINETS_DATA") or user_cache("data")).expanduser()


def fetch(url: str, target: Path) -> None:
    """Download a file over HTTP, with a progress bar on a terminal."""
    downloader = require("pooch", extra="train").HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT)
    requests = require("requests", extra="train")
    try:
        downloader(url, str(target), None)
    except requests.Timeout as error:
        raise TimeoutError(f"{url} did not answer within {_TIMEOUT} s") from error
    except requests.ConnectionError as error:
        raise ConnectionError(f"{url} cannot be reached from this machine") from error


@contextmanager
def offline() -> Iterator[None]:
    """Download nothing inside: what is missing is an error."""
    token = _OFFLINE.set(True)
    try:
        yield
    finally:
        _OFFLINE.reset(token)


def is_offline() -> bool:
    """Whether this is inside :func:`offline`."""
    return _OFFLINE.get()


@contextmanager
def made_folder(folder: Path, *leftovers: str) -> Iterator[None]:
    """Make a folder; if the work inside fails, folders that were made here and hold nothing vanish again.

    Args:
        folder: The folder; its parents are made too.
        leftovers: Files in a folder made here that are removed if the work fails.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a folder is not empty: another process uses it
            for name in leftovers if made else ():
                (folder / name).unlink(missing_ok=True)
            for path in made:
                path.rmdir()
        raise


def obtain_file(remote: Remote, folder: Path, fetch: Fetch) -> Path:
    """Make sure that a file is in a folder. A download appears there when it is complete and its checksum is right."""
    target = folder / remote.name
    if target.exists():
        kind, _, expected = remote.checksum.partition(":")
        if (found := checksum(target, kind)) != expected:
            raise DataError(f"{target}: its {kind} is {found}, but must be {expected}; it is damaged")
        return target
    for url in remote.urls[:-1]:
        with suppress(OSError, DataError):
            return _download(url, target, remote.checksum, fetch)
    return _download(remote.urls[-1], target, remote.checksum, fetch)


def _download(url: str, target: Path, checksum: str, fetch: Fetch) -> Path:
    if is_offline():
        raise OSError(f"downloading {url} was not allowed")
    retrieve = require("pooch", extra="train").retrieve
    with made_folder(target.parent):
        try:
            retrieve(url, checksum, target.name, target.parent, downloader=lambda url, to, _: fetch(url, Path(to)))
        except ValueError as error:
            raise DataError(f"{url}: {error}") from error
    return target


def obtain_folder(remote: Remote, folder: Path, fetch: Fetch) -> None:
    """Make sure that a folder is there: unpack the archive beside it, and download that first if it is missing.

    The folder appears when all of it is unpacked. A downloaded archive is removed afterwards.
    """
    brought = (folder.parent / remote.name).exists()
    archive = obtain_file(remote, folder.parent, fetch)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder.parent) as temporary:
        # not by pooch, which takes members of tar files that lead outside the folder (before Python 3.12)
        options = {} if archive.suffix == ".zip" else {"filter": "data"}
        shutil.unpack_archive(archive, temporary, **options)  # type: ignore[arg-type]
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
