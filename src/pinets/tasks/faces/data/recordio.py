"""MXNet's RecordIO with its index, ``train.rec`` and ``train.idx``, as face data sets are distributed; without MXNet.

A record is a magic number, a word whose upper 3 bits say which part of a record it is and whose lower 29 its length,
the data, and zeros up to a multiple of 4 bytes. Where the data itself held the magic number, the record was cut there:
the parts are put together with the number between them. The data of an image is a header (flag, label, two numbers),
then as many further labels as the flag says, then the encoded image.

Packs of faces begin with a record without an image, whose labels say at which key the records of the *identities* begin
and end; each of those names the range of keys of its images. With them a pack of millions of images is opened by
reading one record for each identity; without them, by reading all records. If the record of an identity is damaged, all
records that no other identity names are read.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets.data.damage import Damage
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import Crop

__all__ = ["Record", "RecordSet", "open_records", "read_record"]

_MAGIC = b"\x0a\x23\xd7\xce"
_HEADER = struct.Struct("<IfQQ")  # flag, label, id, id2
_MOST_IDENTITIES = 1 << 24  # labels are float32, which cannot hold all larger whole numbers
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


class Record(NamedTuple):
    """A record: its labels, and an encoded image, which is empty in records that describe others."""

    labels: tuple[float, ...]
    image: bytes


@dataclass(frozen=True, eq=False, repr=False)
class RecordSet(EncodedSet):
    """Images in a record file.

    Args:
        path: The ``.rec`` file.
        offsets: Where the record of every image begins.
    """

    path: str
    offsets: Tensor

    def encoded(self, index: int) -> tuple[str, bytes]:
        offset = int(self.offsets[index])
        name = f"{self.path}, record at byte {offset}"
        with open(self.path, "rb") as file:
            record = read_record(file, offset)
        if record.labels[0] != int(self.labels[index]):
            raise DataError(
                f"{name}: its label is {record.labels[0]:g}, but its place is identity {self.labels[index]}"
            )
        return name, record.image

    def subset(self, indices: Tensor) -> Self:
        return replace(self, offsets=self.offsets[indices], labels=self.labels[indices])


def read_record(file: BinaryIO, offset: int) -> Record:
    """Read one record of an open file."""
    file.seek(offset)
    parts: list[bytes] = []
    while True:
        start = file.read(8)
        if len(start) < 8 or start[:4] != _MAGIC:
            raise DataError(f"{file.name}: there is no record at byte {offset}, or it is cut short")
        (word,) = struct.unpack("<I", start[4:])
        kind, length = word >> 29, word & (1 << 29) - 1
        if kind not in ((_WHOLE, _FIRST) if not parts else (_MIDDLE, _LAST)):
            raise DataError(f"{file.name}: the record at byte {offset} is damaged, its parts are out of order")
        data = file.read(length + -length % 4)
        if len(data) < length:
            raise DataError(f"{file.name}: the record at byte {offset} is cut short")
        parts.append(data[:length])
        if kind in (_WHOLE, _LAST):
            return _unpack(_MAGIC.join(parts), f"{file.name}: the record at byte {offset}")


def open_records(path: PathLike, crop: Crop, damage: Damage | None = None) -> RecordSet:
    """Open a ``.rec`` file with the ``.idx`` file beside it; identities are numbered as its labels are.

    The file ``property`` beside it, if there is one, says how many identities there are; a label beyond is damage.

    Args:
        path: The ``.rec`` file.
        crop: For decoding.
        damage: Where to note records that cannot be read, which are left out.
    """
    path = Path(path)
    offsets = _read_index(path)
    damage = Damage() if damage is None else damage
    announced = _announced(path.with_name("property"))
    limit = _MOST_IDENTITIES if announced is None else announced
    with path.open("rb") as file:
        spans, complete = _identity_ranges(file, offsets, damage)
        labels = _labels_by_identity(file, offsets, spans, limit, damage)
        if not complete:
            named = {key for span in spans for key in span}
            others = {key: offset for key, offset in offsets.items() if key not in named}
            labels |= _labels_one_by_one(file, others, limit, damage)
    if not labels:
        raise DataError(f"{path}: holds no image")
    names = tuple(map(str, range(max(labels.values()) + 1 if announced is None else announced)))
    places = torch.tensor([offsets[key] for key in labels])
    return RecordSet(torch.tensor(list(labels.values())), names, crop, str(path), places)


def _unpack(data: bytes, name: str) -> Record:
    if len(data) < _HEADER.size:
        raise DataError(f"{name} is too short for its header: {len(data)} of {_HEADER.size} bytes")
    flag, label, _, _ = _HEADER.unpack_from(data)
    if len(data) < _HEADER.size + 4 * flag:
        raise DataError(f"{name} is damaged: it announces {flag} labels, and has {len(data)} bytes")
    labels = struct.unpack_from(f"<{flag}f", data, _HEADER.size) if flag else (label,)
    if not all(map(math.isfinite, labels)):
        raise DataError(f"{name} is damaged: a label is no number")
    return Record(labels, data[_HEADER.size + 4 * flag :])


def _read_index(path: Path) -> dict[int, int]:
    """Where each record begins, by its key."""
    index = path.with_suffix(".idx")
    for needed in (path, index):
        if not needed.is_file():
            raise MissingDataError(f"{needed} is missing")
    offsets = {}
    for number, line in enumerate(index.read_text(encoding="ascii", errors="replace").splitlines(), start=1):
        key, _, offset = line.partition("\t")
        if not all(word.strip().isdecimal() and len(word) < 19 for word in (key, offset)):  # numbers below 2^63
            raise DataError(f"{index}, line {number}: must hold a key and an offset, got {line[:200]!r}")
        offsets[int(key)] = int(offset)
    return offsets


def _identity_ranges(file: BinaryIO, offsets: dict[int, int], damage: Damage) -> tuple[list[range], bool]:
    """The keys of each identity's images, and whether that is all of them: a file may not say, or be damaged."""
    if 0 not in offsets:
        return [], False
    try:
        head = read_record(file, offsets[0])
    except DataError as error:
        damage.note(error)
        return [], False
    if head.image or len(head.labels) < 2:
        return [], False
    first, last = map(int, head.labels[:2])
    ranges: list[range] = []
    taken: set[int] = set()
    for key in range(first, last):
        if key not in offsets:  # and who knows how many more: a damaged head may announce any number
            damage.note(
                DataError(f"{file.name}: identities are the records {first} to {last - 1}, but {key} is not indexed")
            )
            break
        try:
            labels = read_record(file, offsets[key]).labels
            keys = [int(label) for label in labels[:2]]
            if len(keys) < 2 or not 0 <= keys[0] <= keys[1] <= keys[0] + len(offsets):
                raise DataError(f"{file.name}: the record {key} of an identity must name a range of keys, got {labels}")
            span = range(*keys)
            # an image is of one identity; and a small file must not name billions
            if len(taken) + len(span) > len(offsets) or not taken.isdisjoint(span):
                raise DataError(
                    f"{file.name}: the record {key} of an identity names images {span.start} to {span.stop - 1}, which "
                    "others have, or more than there are"
                )
            taken.update(span)
            ranges.append(span)
        except DataError as error:
            damage.note(error)
    return ranges, 0 < len(ranges) == last - first


def _labels_by_identity(
    file: BinaryIO, offsets: dict[int, int], ranges: list[range], limit: int, damage: Damage
) -> dict[int, int]:
    """By key: all images of an identity have the label of the first readable one, and are compared when read."""
    labels: dict[int, int] = {}
    for span in ranges:
        for key in span:
            try:
                if key not in offsets:
                    raise DataError(f"{file.name}: image {key} is not indexed")
                label = _label(read_record(file, offsets[key]), limit, file, offsets[key])
            except DataError as error:
                damage.note(error)
                continue
            labels |= {other: label for other in range(key, span.stop) if other in offsets}
            break
    return labels


def _labels_one_by_one(file: BinaryIO, offsets: dict[int, int], limit: int, damage: Damage) -> dict[int, int]:
    labels: dict[int, int] = {}
    for key, offset in offsets.items():
        try:
            record = read_record(file, offset)
            if record.image:
                labels[key] = _label(record, limit, file, offset)
        except DataError as error:
            damage.note(error)
    return labels


def _label(record: Record, limit: int, file: BinaryIO, offset: int) -> int:
    label = record.labels[0]
    if not label.is_integer() or not 0 <= label < limit:
        raise DataError(
            f"{file.name}: the record at byte {offset} has label {label}, but labels are whole numbers from 0 to "
            f"{limit - 1}"
        )
    return int(label)


def _announced(path: Path) -> int | None:
    """How many identities the file ``property`` announces, if it is there: ``93431,112,112``."""
    if not path.is_file():
        return None
    first = path.read_text(encoding="ascii", errors="replace").partition(",")[0].strip()
    if not first.isdecimal() or len(first) > 18 or not 1 <= int(first) <= _MOST_IDENTITIES:
        raise DataError(
            f"{path}: must begin with the number of identities, from 1 to {_MOST_IDENTITIES}, got {first[:200]!r}"
        )
    return int(first)
