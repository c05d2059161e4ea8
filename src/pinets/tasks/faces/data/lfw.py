"""Labeled Faces in the Wild, view 1: people to develop on, and pairs of other people to test with."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import torch

from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop
from pinets.data.samples import ImageSet
from pinets.data.sets.folders import FolderSet
from pinets.tasks.faces.data.identities import open_identity_folders
from pinets.tasks.faces.data.lists import parse_pairs
from pinets.tasks.faces.data.pairs import FacePairs, open_pairs

__all__ = ["LfwView1", "find_lfw", "read_lfw_view1"]

_FOLDERS = ("lfwcrop", "lfw", ".")
_TRAIN, _TEST = "pairsDevTrain.txt", "pairsDevTest.txt"
_PAIRS_OF_ONE = 6  # validation pairs per person, so that the few people with hundreds of images do not decide


@dataclass(frozen=True)
class LfwView1:
    """Images of people to train on, and pairs of people that no other part shows."""

    train: ImageSet
    validation: FacePairs
    test: FacePairs


def find_lfw(root: Path) -> Path:
    """The folder of LFW, or of LFWcrop, in a folder of data sets."""
    for name in _FOLDERS:
        if (root / name / _TRAIN).is_file():
            return root / name
    raise MissingDataError(
        f"LFW is not in {root}: put {_TRAIN}, {_TEST} and the folder lfw/ with one folder for each person into "
        f"{root / _FOLDERS[0]}; or name another data folder, in the call or by PINETS_DATA"
    )


def read_lfw_view1(folder: PathLike, *, size: int = 64, validation: float = 0.1, smallest: int = 1) -> LfwView1:
    """Read the people of ``pairsDevTrain.txt`` to train on, and the pairs of ``pairsDevTest.txt``.

    Some of the people are held out of training. The validation pairs are made of their images, half of them of one
    person. It is checked that no person is in two parts.

    Args:
        folder: Holds the lists and ``lfw/NAME/NAME_0001.jpg``.
        size: Images are scaled to this height and width.
        validation: The share of the people held out; always the same people.
        smallest: People with fewer images than that are left out of training.
    """
    folder = Path(folder)
    developed, tested = (
        sorted({name for pair in parse_pairs(folder / file) for name, _ in pair}) for file in (_TRAIN, _TEST)
    )
    random.Random(0).shuffle(developed)  # the same split for every seed, so that runs can be compared
    count = round(validation * len(developed))
    held, rest = sorted(developed[:count]), sorted(developed[count:])
    parts = {"training": rest, "validation": held, "test": tested}
    for (first, some), (second, others) in combinations(parts.items(), 2):
        if both := sorted(set(some) & set(others)):
            raise DataError(f"{folder}: {both[0]} is in the {first} and in the {second} part")
    crop = CentreCrop(size, size)
    train, strangers = (open_identity_folders(folder / "lfw", crop, names).in_memory() for names in (rest, held))
    test = open_pairs(folder / _TEST, folder / "lfw", size=size)
    assert isinstance(test.faces, FolderSet)
    return LfwView1(
        _without_rare(train, smallest), _make_pairs(strangers, folder), replace(test, faces=test.faces.in_memory())
    )


def _without_rare(faces: ImageSet, smallest: int) -> ImageSet:
    """Leave out people with few images, and number the others anew."""
    count = torch.bincount(faces.labels, minlength=len(faces.classes))
    kept = count >= smallest
    if not kept.any():
        raise DataError(f"nobody has {smallest} images to train on")
    number = kept.cumsum(0) - 1
    rows = kept[faces.labels]
    names = tuple(name for name, keep in zip(faces.classes, kept.tolist(), strict=True) if keep)
    return ImageSet(faces.images[rows], number[faces.labels[rows]], names)


def _make_pairs(faces: ImageSet, folder: Path) -> FacePairs:
    """A few pairs of each person with two images or more, and as many of two people."""
    choice = random.Random(0)
    label = faces.labels.tolist()
    pairs: list[tuple[int, int]] = []
    for person in range(len(faces.classes)):
        own = list(combinations([image for image, other in enumerate(label) if other == person], 2))
        pairs += choice.sample(own, min(_PAIRS_OF_ONE, len(own)))
    of_one = len(pairs)
    if of_one == 0:
        raise DataError(f"{folder}: nobody held out for validation has two images; hold out more people")
    if len(set(label)) == 1:
        raise DataError(f"{folder}: one person alone is held out for validation; hold out more people")
    while len(pairs) < 2 * of_one:
        first, second = choice.randrange(len(faces)), choice.randrange(len(faces))
        if label[first] != label[second]:
            pairs.append((first, second))
    return FacePairs(faces, torch.tensor(pairs), torch.arange(len(pairs)) < of_one)
