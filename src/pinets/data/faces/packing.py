"""Faces by identity, written as WebDataset shards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.damage import Damage
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError
from pinets.data.faces.identities import open_identities
from pinets.data.formats.decode import CentreCrop, decode_image
from pinets.data.formats.shards import CLASSES, image_kind, new_folder

__all__ = ["Packed", "pack"]


@dataclass(frozen=True)
class Packed:
    """What came of packing: how many images, identities and shards were written, and how many images were left out."""

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
        source: What :func:`pinets.data.open_identities` opens: a pack of MXNet's, or a folder for each person.
        folder: Where the shards go; must not exist yet.
        per_shard: How many images go into a file.
        seed: Of the order.
        damage: Where to note images that cannot be decoded; ``Damage(strict=True)`` makes the first an error.
    """
    if per_shard < 1:
        raise ValueError(f"per_shard must be at least 1, got {per_shard}")
    damage = Damage() if damage is None else damage
    samples = open_identities(source, CentreCrop(8, 8), damage)  # decoded as a trial: the size does not matter
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    written, shards = 0, 0
    with new_folder(Path(folder)) as partial:
        for indices in order.split(per_shard):
            path = partial / f"train-{shards:06d}.tar"
            count = _write(path, samples, indices.tolist(), damage)
            if count == 0:
                path.unlink()
            written += count
            shards += count > 0
        if written == 0:
            raise DataError(f"{source}: no image can be decoded")
        (partial / CLASSES).write_text("\n".join(samples.classes) + "\n", encoding="utf-8")
    return Packed(written, len(samples.classes), shards, damage.count)


def _write(path: Path, samples: EncodedSet, indices: list[int], damage: Damage) -> int:
    """Write a shard and return how many images it holds."""
    webdataset = require("webdataset", extra="train")
    written = 0
    with path.open("wb") as file, webdataset.TarWriter(file, mtime=0.0) as writer:
        for index in indices:
            try:
                name, encoded = samples.encoded(index)
                decode_image(encoded, name, samples.crop, ())
                kind = image_kind(encoded, name)
            except DataError as error:
                damage.note(error)
                continue
            writer.write({"__key__": f"{index:08d}", kind: encoded, "cls": int(samples.labels[index])})
            written += 1
    return written
