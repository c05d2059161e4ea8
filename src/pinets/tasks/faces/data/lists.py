"""Text and JSON files that list images: pairs in LFW's format, and MegaFace's probes, distractors and noises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets._storage import parse_json
from pinets.data.errors import DataError
from pinets.data.formats.text import read_text

__all__ = [
    "ImageList",
    "ListedPair",
    "keep",
    "parse_pairs",
    "read_image_list",
    "read_noises",
    "same_person",
]

ListedPair = tuple[tuple[str, int], tuple[str, int]]  # a person and the number of an image, twice


# Pairs


def parse_pairs(path: PathLike) -> list[ListedPair]:
    """Read ``pairs.txt``, ``pairsDevTest.txt``, ``pairsDevTrain.txt`` or ``African_pairs.txt``.

    A line names a pair of one person (name, number, number) or of two (name, number, name, number). The first line may
    announce how many pairs follow: either the number of pairs of one person (as many of two people follow), or the
    number of sets and then the pairs of one person in each.
    """
    lines = read_text(path).splitlines()
    announced = _announced(lines[0]) if lines else None
    pairs: list[ListedPair] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and announced is not None):
            continue
        match line.split():
            case [name, first, second] if _is_number(first) and _is_number(second):
                pairs.append(((name, int(first)), (name, int(second))))
            case [name, first, other, second] if _is_number(first) and _is_number(second) and name != other:
                pairs.append(((name, int(first)), (other, int(second))))
            case _:
                raise DataError(
                    f"{path}, line {number}: expected NAME N N, or NAME N NAME N of two people, got {line[:200]!r}"
                )
    if announced is not None and len(pairs) != announced:
        raise DataError(f"{path}: announces {announced} pairs and has {len(pairs)}")
    if not pairs:
        raise DataError(f"{path}: names no pairs")
    return pairs


def same_person(pairs: Sequence[ListedPair]) -> Tensor:
    """Whether each pair is of one person.

    >>> same_person([(("Ann", 1), ("Ann", 2)), (("Ann", 1), ("Bob", 1))])
    tensor([ True, False])
    """
    return torch.tensor([first == second for (first, _), (second, _) in pairs])


def _is_number(word: str) -> bool:
    """Whether a word is a number of an image, or of pairs: Python refuses to read one of thousands of digits."""
    return word.isdecimal() and len(word) < 10


def _announced(line: str) -> int | None:
    """The number of pairs that a first line such as ``10 300`` or ``500`` announces; None if it is a pair itself."""
    words = line.split()
    if len(words) > 2 or not words or not all(map(_is_number, words)):
        return None
    sets, matched = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    return 2 * sets * matched


# MegaFace


@dataclass(frozen=True, eq=False)
class ImageList:
    """Paths of images, and the number of the person each shows. Distractors are numbered by their folders."""

    paths: tuple[str, ...]
    people: Tensor


def read_image_list(path: PathLike) -> ImageList:
    """Read ``facescrub_features_list.json``, ``megaface_features_list.json_1000000_1``, or a text of one path a line.

    JSON holds ``path``, and ``id`` if the people are known; otherwise the folder of an image stands for its person.
    """
    path = Path(path)
    text = read_text(path)
    if text.lstrip().startswith("{"):
        try:
            content = parse_json(text, path)
        except ValueError as error:
            raise DataError(str(error)) from error
        names = _texts(content.get("path", []), path, "path")
        people = _texts(content.get("id") or _folders(names), path, "id")
    else:
        names = [line.strip() for line in text.splitlines() if line.strip()]
        people = _folders(names)
    if not names or len(people) != len(names):
        raise DataError(f"{path}: names {len(names)} images and {len(people)} people")
    number = {person: place for place, person in enumerate(dict.fromkeys(people))}
    return ImageList(tuple(names), torch.tensor([number[person] for person in people]))


def read_noises(path: PathLike) -> frozenset[str]:
    """Read ``facescrub_noises.txt`` or ``megaface_noises.txt``: a path or a name a line, after a tab if there is one.

    Lines that begin with # are comments.
    """
    lines = (line.strip() for line in read_text(path).splitlines())
    return frozenset(line.split("\t")[-1].strip() for line in lines if line and not line.startswith("#"))


def keep(images: ImageList, noises: frozenset[str]) -> Tensor:
    """The numbers of the images that are not noises. A noise names an image by its path or the end of it.

    >>> images = ImageList(("100/a/1.jpg", "100/b/1.jpg", "100/b/2.jpg"), torch.tensor([0, 1, 1]))
    >>> keep(images, frozenset({"b/1.jpg"}))
    tensor([0, 2])
    """

    def noisy(path: str) -> bool:
        parts = PurePosixPath(path).parts
        return any("/".join(parts[start:]) in noises for start in range(len(parts)))

    return torch.tensor([number for number, path in enumerate(images.paths) if not noisy(path)], dtype=torch.int64)


def _texts(values: Any, path: Path, key: str) -> list[str]:
    """A list in a JSON file, checked; people may be named by numbers."""
    if not isinstance(values, list):
        raise DataError(f"{path}: {key!r} must be a list, got {type(values).__name__}")
    for value in values:
        if not isinstance(value, str) and not (key == "id" and isinstance(value, int)):
            raise DataError(f"{path}: {key!r} must be a list of texts, got {value!r}")
    return values


def _folders(names: Sequence[str]) -> list[str]:
    return [str(PurePosixPath(name).parent) for name in names]
