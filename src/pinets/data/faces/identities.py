"""Faces to train on, by identity: a pack of MXNet's, shards, or a folder for each person."""

from __future__ import annotations

import os
from pathlib import Path

from pinets._files import PathLike
from pinets.data.damage import Damage
from pinets.data.encoded import EncodedSet
from pinets.data.errors import MissingDataError
from pinets.data.formats.decode import Crop
from pinets.data.formats.recordio import open_records
from pinets.data.formats.shards import open_shards, shard_classes
from pinets.data.sets.folders import FolderSet, label_folders

__all__ = ["open_identities", "open_identity_folders"]


def open_identities(folder: PathLike, crop: Crop, damage: Damage | None = None) -> EncodedSet:
    """Open the faces in a folder; what it holds decides how.

    Args:
        folder: Holds ``train.rec`` and ``train.idx``; or shards, ``train-*.tar``; or a folder for each person.
        crop: For decoding.
        damage: Where to note records that cannot be read and are left out.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingDataError(f"{folder} is missing")
    if (folder / "train.rec").exists():
        return open_records(folder / "train.rec", crop, damage)
    if shards := sorted(folder.glob("train-*.tar")):
        return open_shards(shards, crop, shard_classes(folder))
    return open_identity_folders(folder, crop)


def open_identity_folders(folder: Path, crop: Crop, people: list[str] | None = None) -> FolderSet:
    """List the images of people, a folder each.

    Args:
        folder: Holds the folders.
        crop: For decoding.
        people: Whose, and in which order they are numbered; all, sorted by name, if left out.
    """
    names = people
    if names is None:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    if not names:
        raise MissingDataError(f"{folder} holds neither train.rec, nor train-*.tar, nor a folder for each person")
    return label_folders(folder, names, crop)
