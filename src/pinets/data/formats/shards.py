"""WebDataset shards, for datasets larger than memory: tar files that hold ``key.jpg`` beside ``key.cls``.

The position of every image is looked up once, when the dataset is opened; afterwards images are read in any order. So
batches are the same for one process and for several, and a resumed run does not read again what it has seen. An epoch
goes through the shards in random order, a few at a time, and shuffles within these, so that reads stay in few files.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.encoded import EncodedSet, complete, in_their_channels
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import Crop, encode_png
from pinets.data.formats.text import read_text
from pinets.data.samples import ImageSet, Splits, check_labels
from pinets.data.sets.folders import crops

__all__ = [
    "CLASSES",
    "ShardSet",
    "image_kind",
    "new_folder",
    "open_shards",
    "read_shards",
    "shard_classes",
    "write_shard",
    "write_shards",
]

_IMAGES = {"jpg", "jpeg", "png", "webp", "ppm", "bmp"}
CLASSES = "classes.txt"  # the names of the classes, one on each line
_MOST_CLASSES = 10_000_000  # more than any dataset has: a damaged label must not create names that fill the memory


@dataclass(frozen=True, eq=False, repr=False)
class ShardSet(EncodedSet):
    """Images in shards.

    Args:
        shards: The tar files.
        places: Shard, first byte and size of every image, int64 (N, 3).
        together: Number of shards that are shuffled together.
    """

    shards: tuple[str, ...]
    places: Tensor
    together: int = 8

    def encoded(self, index: int) -> tuple[str, bytes]:
        shard, offset, size = self.places[index].tolist()
        with open(self.shards[shard], "rb") as file:
            file.seek(offset)
            return f"{self.shards[shard]}, image {index} at byte {offset}", file.read(size)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        order = []
        for group in torch.randperm(len(self.shards), generator=generator).split(self.together):
            members = torch.isin(self.places[:, 0], group).nonzero().flatten()
            order.append(members[torch.randperm(len(members), generator=generator)])
        return torch.cat(order)

    def subset(self, indices: Tensor) -> Self:
        return replace(self, places=self.places[indices], labels=self.labels[indices])


def open_shards(shards: Sequence[PathLike], crop: Crop, classes: Sequence[str] | None = None) -> ShardSet:
    """Open shards: look up where their images are.

    Args:
        shards: Tar files.
        crop: For decoding.
        classes: Their names; by default the numbers found in the shards.
    """
    places, labels = [], []
    for number, path in enumerate(map(Path, shards)):
        spans, answers = _index(path)
        if classes is not None:
            check_labels(answers, len(classes), path)
        places.append(F.pad(spans, (1, 0), value=number))
        labels.append(answers)
    label = torch.cat(labels)
    names = tuple(map(str, range(int(label.max()) + 1))) if classes is None else tuple(classes)
    return ShardSet(label, names, crop, tuple(map(str, shards)), torch.cat(places))


def read_shards(folder: Path, *, size: int = 224, validation: float = 0.1, seed: int = 0) -> Splits[ShardSet]:
    """Read shards named ``train-*.tar``, ``validation-*.tar`` and ``test-*.tar``, and ``classes.txt`` if it is there.

    The options are those of :func:`pinets.data.sets.folders.read_image_folder`.
    """
    train_crop, test_crop = crops(size)
    classes = shard_classes(folder)
    shards = {part: sorted(folder.glob(f"{part}-*.tar")) for part in ("train", "test", "validation")}
    if not shards["train"]:
        raise MissingDataError(f"{folder} holds no shards for training, train-000000.tar and so on")
    train = open_shards(shards["train"], train_crop, classes)
    own = {part: open_shards(shards[part], test_crop, train.classes) for part in ("test", "validation") if shards[part]}
    train, *others = in_their_channels(train, *own.values())
    own = dict(zip(own, others, strict=True))
    return complete(
        train,
        test=own.get("test"),
        validation=own.get("validation"),
        crop=test_crop,
        fraction=validation,
        seed=seed,
    )


def shard_classes(folder: Path) -> list[str] | None:
    """The names of the classes in ``classes.txt`` of a folder of shards, if there is one."""
    named = folder / CLASSES
    return read_text(named).splitlines() if named.is_file() else None


def write_shards(splits: Splits[Any], folder: PathLike, *, per_shard: int = 1000, seed: int = 0) -> None:
    """Write a dataset as shards, in random order; ``folder`` appears when all of them are complete.

    Encoded images are copied as they are, decoded ones become PNG.

    Args:
        splits: Three :class:`pinets.data.ImageSet`, or sets of encoded images.
        folder: Must not exist yet.
        per_shard: Images in a file.
        seed: Seed of the order.
    """
    with new_folder(Path(folder)) as partial:
        parts = {"train": splits.train, "validation": splits.validation, "test": splits.test}
        for part, samples in parts.items():
            order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
            for number, indices in enumerate(order.split(per_shard)):
                images = (_encoded(samples, index) for index in indices.tolist())
                write_shard(partial / f"{part}-{number:06d}.tar", images, samples.labels)
        (partial / CLASSES).write_text("\n".join(splits.train.classes) + "\n", encoding="utf-8")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write to, which gets its name when all is written, and is removed if that fails."""
    if folder.exists():
        raise FileExistsError(f"{folder} exists already: shards are written to a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        partial = Path(temporary) / folder.name
        partial.mkdir()
        yield partial
        os.replace(partial, folder)


def write_shard(path: Path, images: Iterable[tuple[int, str, bytes]], labels: Tensor) -> int:
    """Write images, each by its number, with its name and bytes, to one file; returns how many there are."""
    webdataset = require("webdataset", extra="train")
    count = 0
    with path.open("wb") as file, webdataset.TarWriter(file, mtime=0.0) as writer:
        for index, name, encoded in images:
            writer.write({"__key__": f"{index:08d}", image_kind(encoded, name): encoded, "cls": int(labels[index])})
            count += 1
    return count


def _encoded(samples: ImageSet | EncodedSet, index: int) -> tuple[int, str, bytes]:
    if isinstance(samples, EncodedSet):
        return index, *samples.encoded(index)
    return index, f"image {index}", encode_png(samples.images[index])


def image_kind(encoded: bytes, name: str) -> str:
    """The file ending of an image, by its first bytes."""
    starts = {b"\xff\xd8": "jpg", b"\x89PNG": "png", b"RIFF": "webp", b"BM": "bmp", b"P5": "ppm", b"P6": "ppm"}
    for start, kind in starts.items():
        if encoded.startswith(start):
            return kind
    raise DataError(f"{name}: shards hold JPEG, PNG, WebP, BMP or PPM images, and this is none of them")


def _require_new(key: str, known: Collection[str], path: Path) -> None:
    if key in known:
        raise DataError(f"{path}: {key} is there twice")


def _index(path: Path) -> tuple[Tensor, Tensor]:
    """Where every image of a shard starts and how long it is, (N, 2), and its label."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, int] = {}
    size = path.stat().st_size
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                folder, slash, file = member.name.rpartition("/")
                stem, _, ending = file.partition(".")
                key = folder + slash + stem  # as WebDataset has it
                if not member.isfile():
                    continue
                if member.size < 0 or member.offset_data + member.size > size:
                    raise DataError(
                        f"{path}: damaged or cut short, {member.name} has {member.size} bytes by its header"
                    )
                if ending.lower() in _IMAGES:
                    _require_new(key, images, path)
                    images[key] = member.offset_data, member.size
                elif ending == "cls":
                    _require_new(key, labels, path)
                    labels[key] = _label(tar, member, path)
            _require_end(path, tar.offset)
    except DataError:
        raise
    except (tarfile.TarError, ValueError, OverflowError, MemoryError) as error:  # names and sizes may be anything
        raise DataError(f"{path}: damaged or cut short ({error})") from error
    if alone := sorted(set(images) ^ set(labels)):
        raise DataError(f"{path}: {alone[0]} lacks its {'image' if alone[0] in labels else 'label (.cls)'}")
    if not images:
        raise DataError(f"{path}: holds no images with labels (key.jpg and key.cls)")
    return torch.tensor(list(images.values())), torch.tensor([labels[key] for key in images])


def _label(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> int:
    file = tar.extractfile(member)
    text = file.read(32) if file else b""
    if not text.strip().isdigit() or int(text) >= _MOST_CLASSES:
        raise DataError(f"{path}: {member.name} must hold a whole number from 0 to {_MOST_CLASSES - 1}, got {text!r}")
    return int(text)


def _require_end(path: Path, offset: int) -> None:
    """A tar file ends in two blocks of zeros, or more; ``tarfile`` also takes a damaged header for its end."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) < offset + 1024:
            raise DataError(f"{path}: damaged or cut short, it does not end as tar files do")
        file.seek(offset)
        while block := file.read(1 << 20):
            if any(block):
                raise DataError(f"{path}: damaged at byte {offset}, where the next member or the end must stand")
