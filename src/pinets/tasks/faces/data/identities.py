"""Faces to train on, by identity: MXNet's record file, WebDataset shards, or a folder for each person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from pinets._files import PathLike
from pinets.data.damage import Damage
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop, Crop, decode_image
from pinets.data.formats.shards import CLASSES, image_kind, new_folder, open_shards, shard_classes, write_shard
from pinets.data.sets.folders import FolderSet, label_folders
from pinets.tasks.faces.data.recordio import open_records

__all__ = ["Packed", "open_identities", "open_identity_folders", "pack"]


def open_identities(folder: PathLike, crop: Crop, damage: Damage | None = None) -> EncodedSet:
    """Open the faces in a folder of any of these formats.

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
        people: The names of the folders, in the order in which people are numbered; all, sorted, if left out.
    """
    names = people
    if names is None:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    if not names:
        raise MissingDataError(f"{folder} holds neither train.rec, nor train-*.tar, nor a folder for each person")
    return label_folders(folder, names, crop)


@dataclass(frozen=True)
class Packed:
    """How many images, identities and shards were written, and how many damaged images were left out."""

    images: int
    identities: int
    shards: int
    damaged: int


def pack(
    source: PathLike,
    folder: PathLike,
    *,
    per_shard: int = 10_000,
    seed: int = 0,
    damage: Damage | None = None,
) -> Packed:
    """Write the faces of a folder as shards, in random order, each image copied as it is.

    Every image is decoded once. One that cannot be is left out and counted. The new folder appears when all is written.

    Args:
        source: A pack of MXNet's, or a folder for each person, as
            :func:`pinets.tasks.faces.data.identities.open_identities` opens them.
        folder: Where the shards go; must not exist yet.
        per_shard: How many images go into a file.
        seed: Seed of the order.
        damage: Where to note images that cannot be decoded; ``Damage(strict=True)`` makes the first an error.
    """
    if per_shard < 1:
        raise ValueError(f"per_shard must be at least 1, got {per_shard}")
    damage = Damage() if damage is None else damage
    samples = open_identities(source, CentreCrop(8, 8), damage)  # a trial: any size will do
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    written, shards = 0, 0
    with new_folder(Path(folder)) as partial:
        for indices in order.split(per_shard):
            path = partial / f"train-{shards:06d}.tar"
            count = write_shard(path, _readable(samples, indices.tolist(), damage), samples.labels)
            if count == 0:
                path.unlink()
            written += count
            shards += count > 0
        if written == 0:
            raise DataError(f"{source}: no image can be decoded")
        (partial / CLASSES).write_text("\n".join(samples.classes) + "\n", encoding="utf-8")
    return Packed(written, len(samples.classes), shards, damage.count)


def _readable(samples: EncodedSet, indices: list[int], damage: Damage) -> Iterator[tuple[int, str, bytes]]:
    """The images that can be decoded, and whose kind shards can hold."""
    for index in indices:
        try:
            name, encoded = samples.encoded(index)
            decode_image(encoded, name, samples.crop, ())
            image_kind(encoded, name)
        except DataError as error:
            damage.note(error)
            continue
        yield index, name, encoded
