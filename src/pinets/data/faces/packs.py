"""The ``.bin`` packs of pairs that insightface distributes: ``lfw.bin``, ``cfp_fp.bin``, ``agedb_30.bin`` and so on.

A pack is a pickle of a list of encoded images, two for each pair, and a list of whether they show one person. It is
read by an unpickler that knows containers, numbers, bytes and plain arrays, and refuses what else it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.faces.face_pairs import FacePairs
from pinets.data.formats.decode import CentreCrop
from pinets.data.formats.pickles import load_arrays

__all__ = ["PackedImages", "open_pack"]


@dataclass(frozen=True, eq=False, repr=False)
class PackedImages(EncodedSet):
    """Encoded images in memory; they have one class, for a pack does not say whom they show."""

    contents: tuple[bytes, ...]
    source: str

    def encoded(self, index: int) -> tuple[str, bytes]:
        return f"{self.source}, image {index}", self.contents[index]

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    def subset(self, indices: Tensor) -> Self:
        contents = tuple(self.contents[index] for index in indices.tolist())
        return replace(self, contents=contents, labels=self.labels[indices])


def open_pack(path: PathLike, *, size: int = 112) -> FacePairs:
    """The pairs of a pack: images 2i and 2i + 1 are pair i.

    Args:
        path: The file.
        size: Images are scaled to this height and width.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    content = load_arrays(path)
    if not isinstance(content, (tuple, list)) or len(content) != 2:
        raise DataError(f"{path}: expected a list of images and a list of answers, got {type(content).__name__}")
    images, answers = content
    _require_list(images, path, "images")
    _require_list(answers, path, "answers")
    same = torch.tensor([_answer(value, path) for value in answers], dtype=torch.bool)
    contents = tuple(_encoded(image, path, number) for number, image in enumerate(images))
    if not len(same) or len(contents) != 2 * len(same):
        raise DataError(f"{path}: {len(same)} pairs need {2 * len(same)} images, but there are {len(contents)}")
    labels = torch.zeros(len(contents), dtype=torch.int64)
    faces = PackedImages(labels, ("unknown",), CentreCrop(size, size), contents, str(path))
    return FacePairs(faces, torch.arange(len(contents)).view(-1, 2), same)


def _require_list(values: Any, path: Path, what: str) -> None:
    if not isinstance(values, (tuple, list)) and not getattr(values, "ndim", 0):  # arrays are lists too
        raise DataError(f"{path}: the {what} must be a list, got {type(values).__name__}")


def _answer(value: Any, path: Path) -> bool:
    if getattr(value, "size", 1) != 1 or value not in (0, 1):  # also True, False, and those of NumPy
        raise DataError(f"{path}: whether a pair shows one person must be true or false, got {value!r}")
    return bool(value)


def _encoded(image: Any, path: Path, number: int) -> bytes:
    if not isinstance(image, bytes) and not hasattr(image, "tobytes"):
        raise DataError(f"{path}: image {number} must be bytes, got {type(image).__name__}")
    return image if isinstance(image, bytes) else image.tobytes()
