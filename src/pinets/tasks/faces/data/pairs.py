"""Pairs of faces to verify: lists in LFW's format over folders of images, RFW's four, and insightface's ``.bin`` packs.

A pack (``lfw.bin``, ``cfp_fp.bin``, ``agedb_30.bin``, ...) is a pickle of a list of encoded images, two for each pair,
and a list of whether they show one person. It is read by an unpickler that accepts containers, numbers, bytes and plain
arrays only.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop
from pinets.data.formats.pickles import load_arrays
from pinets.data.samples import SampleSet
from pinets.data.sets.folders import FolderSet
from pinets.tasks.faces.data.lists import parse_pairs, same_person

__all__ = ["RFW_SUBSETS", "FacePairs", "PackedImages", "open_pack", "open_pairs", "open_rfw", "rfw_files"]

RFW_SUBSETS = ("Caucasian", "Indian", "Asian", "African")  # in the order of the paper's table
_ENDINGS = (".jpg", ".png", ".jpeg")


@dataclass(frozen=True, eq=False)
class FacePairs:
    """Pairs of faces, each of one person or of two.

    Attributes:
        faces: All images.
        pairs: The two images of each pair, int64 (P, 2).
        same: Whether they show one person, (P,).
    """

    faces: SampleSet
    pairs: Tensor
    same: Tensor

    def __post_init__(self) -> None:
        if self.pairs.shape != (len(self.same), 2):
            raise DataError(
                f"there must be one answer for each pair, got {tuple(self.pairs.shape)} and {len(self.same)}"
            )

    def __len__(self) -> int:
        return len(self.same)


# Lists


def open_pairs(path: PathLike, images: PathLike, *, size: int) -> FacePairs:
    """The pairs of a list, with the images ``images/NAME/NAME_0001.jpg``, each of which is read once.

    Args:
        path: The list, as :func:`~pinets.tasks.faces.data.parse_pairs` reads it.
        images: Holds one folder for each person.
        size: Images are scaled to this height and width.
    """
    path, images = Path(path), Path(images)
    pairs = parse_pairs(path)
    faces = sorted({face for pair in pairs for face in pair})
    people = tuple(sorted({name for name, _ in faces}))
    place = {face: number for number, face in enumerate(faces)}
    files = tuple(_find(images / name, f"{name}_{number:04d}", path) for name, number in faces)
    label = {name: number for number, name in enumerate(people)}
    return FacePairs(
        FolderSet(torch.tensor([label[name] for name, _ in faces]), people, CentreCrop(size, size), files),
        torch.tensor([[place[first], place[second]] for first, second in pairs]),
        same_person(pairs),
    )


def open_rfw(folder: PathLike, *, size: int) -> dict[str, FacePairs]:
    """The four subsets of Racial Faces in-the-Wild, by name.

    Args:
        folder: Holds ``txts/African/African_pairs.txt`` and ``data/African/ID/ID_0001.jpg``, and so on; or holds
            ``test``, which holds these.
        size: Images are scaled to this height and width.
    """
    return {name: open_pairs(path, images, size=size) for name, (path, images) in rfw_files(folder).items()}


def rfw_files(folder: PathLike) -> dict[str, tuple[Path, Path]]:
    """The list and the folder of images of each subset, in the folder that :func:`open_rfw` takes."""
    folder = Path(folder)
    root = folder / "test" if (folder / "test" / "txts").is_dir() else folder
    return {name: (root / "txts" / name / f"{name}_pairs.txt", root / "data" / name) for name in RFW_SUBSETS}


def _find(folder: Path, stem: str, path: Path) -> str:
    for ending in _ENDINGS:
        if (folder / f"{stem}{ending}").is_file():
            return str(folder / f"{stem}{ending}")
    raise MissingDataError(
        f"{folder / stem}.jpg is missing (nor is there {' or '.join(_ENDINGS[1:])}); {path} names it"
    )


# Packs


@dataclass(frozen=True, eq=False, repr=False)
class PackedImages(EncodedSet):
    """Encoded images in memory. They have one class, since a pack does not name its people."""

    contents: tuple[bytes, ...]
    source: str

    def encoded(self, index: int) -> tuple[str, bytes]:
        return f"{self.source}, image {index}", self.contents[index]

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
    images, once = list(images), {}  # an image that is used for several pairs is kept once
    for number, image in enumerate(images):
        if id(image) not in once:
            once[id(image)] = _encoded(image, path, number)
    contents = tuple(once[id(image)] for image in images)
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
        raise DataError(f"{path}: whether a pair shows one person must be true or false, got {reprlib.repr(value)}")
    return bool(value)


def _encoded(image: Any, path: Path, number: int) -> bytes:
    if not isinstance(image, bytes) and not hasattr(image, "tobytes"):
        raise DataError(f"{path}: image {number} must be bytes, got {type(image).__name__}")
    return image if isinstance(image, bytes) else image.tobytes()
