"""Folders of images: one folder for each class, or any folders without classes (FFHQ, LFWcrop, your own)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from pinets.data.encoded import EncodedSet, complete, in_their_channels
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop, Crop, RandomResizedCrop, open_image
from pinets.data.samples import ImageSet, Splits
from pinets.data.splits import divide

__all__ = [
    "IMAGE_SUFFIXES",
    "FolderSet",
    "class_names",
    "crops",
    "files_in",
    "image_files",
    "label_folders",
    "read_class_folders",
    "read_image_folder",
    "read_labelled_pictures",
    "read_listed_images",
    "read_pictures",
    "require_alike",
]

_IN_MEMORY = 2**30  # bytes: smaller datasets are decoded once

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True, eq=False, repr=False)
class FolderSet(EncodedSet):
    """Image files that are decoded when they are read."""

    paths: tuple[str, ...]

    def encoded(self, index: int) -> tuple[str, bytes]:
        return self.paths[index], Path(self.paths[index]).read_bytes()

    def subset(self, indices: Tensor) -> Self:
        paths = tuple(self.paths[index] for index in indices.tolist())
        return replace(self, paths=paths, labels=self.labels[indices])


def crops(size: int) -> tuple[Crop, Crop]:
    """The usual crops for training and for evaluation; the latter keeps the central 7/8, as 224 of 256 pixels."""
    return RandomResizedCrop(size), CentreCrop(size, resize=round(size * 8 / 7))


def read_image_folder(folder: Path, *, size: int = 224, validation: float = 0.1, seed: int = 0) -> Splits[FolderSet]:
    """Read images from folders, one for each class; images may be in folders inside it.

    ``folder`` may hold ``train`` and ``test`` (or ``val``, which then is the test set, as for ImageNet), and both
    ``val`` and ``test`` if the dataset defines its own validation images. Without any of these the folders of the
    classes are in ``folder`` itself, and the test images are held out as the validation images are. If all images are
    grey they keep their one channel; otherwise all become RGB.

    Args:
        folder: The root.
        size: Height and width of a random part of each image for training, and of its centre for validation and test.
        validation: Fraction of every class held out of the training images, if the dataset defines no validation.
        seed: Decides which images are held out.
    """
    train_crop, test_crop = crops(size)
    own = [name for name in ("test", "val") if (folder / name).is_dir()]
    if own and not (folder / "train").is_dir():
        raise MissingDataError(f"{folder / 'train'} is missing, but {folder / own[0]} is there: a set has both")
    train = read_class_folders(folder / "train" if (folder / "train").is_dir() else folder, train_crop)
    held = [read_class_folders(folder / name, test_crop, train.classes) for name in own]
    train, *held = in_their_channels(train, *held)
    test, own_validation = [*held, None, None][:2]  # a single one is the test set, whatever its name
    return complete(train, test=test, validation=own_validation, crop=test_crop, fraction=validation, seed=seed)


def read_labelled_pictures(
    folder: Path, *, size: int = 64, validation: float = 0.1, seed: int = 0
) -> Splits[ImageSet] | Splits[FolderSet]:
    """Read images from one folder for each class, as :func:`read_image_folder` does, but scaled whole and decoded once.

    Of images that are not square the centre is kept. A dataset of more than a gibibyte stays encoded.
    """
    found = read_image_folder(folder, size=size, validation=validation, seed=seed)
    whole = CentreCrop(size, resize=size)
    train, held, test = (part.with_crop(whole) for part in (found.train, found.validation, found.test))
    if sum(map(len, (train, held, test))) * train.channels * size * size > _IN_MEMORY:
        return Splits(train, held, test)
    return Splits(train.in_memory(), held.in_memory(), test.in_memory())


def read_class_folders(folder: Path, crop: Crop, classes: Sequence[str] | None = None) -> FolderSet:
    """List the images of all folders in ``folder``, one for each class; see :func:`label_folders`."""
    return label_folders(folder, class_names(folder, classes), crop, classes)


def class_names(folder: Path, classes: Sequence[str] | None = None) -> list[str]:
    """The names of the folders in ``folder``, one for each class; all must be among ``classes`` if these are given.

    Hidden folders are left out, such as Jupyter's ``.ipynb_checkpoints``.
    """
    if not folder.is_dir():
        raise MissingDataError(f"{folder} is missing")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise MissingDataError(f"{folder} has no folders: there must be one for each class")
    for name in found:
        if any("\ud800" <= letter <= "\udfff" for letter in name):  # Python's stand-ins for bytes
            raise DataError(f"{folder}: the name of a class must be UTF-8, got the folder {os.fsencode(name)!r}")
        if classes is not None and name not in classes:
            raise DataError(f"{folder / name}: there is no class {name!r} in the training data")
    return found


def label_folders(folder: Path, names: Sequence[str], crop: Crop, classes: Sequence[str] | None = None) -> FolderSet:
    """List the images of named folders, each of one class.

    Args:
        folder: Holds the folders.
        names: Which of them.
        crop: For decoding.
        classes: All classes, in order; ``names`` if left out.
    """
    number = {name: label for label, name in enumerate(names if classes is None else classes)}
    paths: list[str] = []
    labels: list[int] = []
    for name in names:
        images = image_files(folder / name)
        if not images:
            raise DataError(f"{folder / name} holds no images")
        paths += images
        labels += [number[name]] * len(images)
    return FolderSet(torch.tensor(labels), tuple(number), crop, tuple(paths))


def read_listed_images(folder: Path, listing: Mapping[str, str], crop: Crop, classes: Sequence[str]) -> FolderSet:
    """List the images of one folder whose classes are given by a list.

    Args:
        folder: Holds the images.
        listing: The class of each image, by the file's name without the ending.
        crop: For decoding.
        classes: All classes, in order.
    """
    number = {name: label for label, name in enumerate(classes)}
    images = image_files(folder)
    if not images:
        raise MissingDataError(f"{folder} holds no images")
    labels = []
    for path in images:
        name = listing.get(Path(path).stem)
        if name not in number:
            reason = (
                "is not in the list of classes" if name is None else f"has class {name!r}, which has no training images"
            )
            raise DataError(f"{path}: {reason}")
        labels.append(number[name])
    return FolderSet(torch.tensor(labels), tuple(classes), crop, tuple(images))


def image_files(folder: Path) -> list[str]:
    """All images in a folder and the folders in it, in a fixed order."""
    return sorted(map(str, files_in(folder, IMAGE_SUFFIXES)))


def files_in(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """All files with one of the endings, in a folder and the folders in it.

    Hidden ones are left out: copies in Jupyter's ``.ipynb_checkpoints``, and ``._cat.jpg`` of macOS, which is no image.
    """
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def read_pictures(
    folder: Path, *, size: int = 64, validation: float = 0.1, seed: int = 0
) -> Splits[ImageSet] | Splits[FolderSet]:
    """Read all images of a folder and the folders in it, scaled to ``size``. They must have one size and one mode.

    Args:
        folder: Holds the images.
        size: Height and width; of images that are not square the centre is kept.
        validation: The fraction held out, once for validation and once for the test.
        seed: Decides which images are held out.
    """
    paths = image_files(folder)
    if not paths:
        raise MissingDataError(f"{folder} holds no images")
    require_alike(paths)
    labels = torch.zeros(len(paths), dtype=torch.int64)
    (every,) = in_their_channels(FolderSet(labels, ("image",), CentreCrop(size, resize=size), tuple(paths)))
    if len(paths) * every.channels * size * size > _IN_MEMORY:
        return divide(every, validation, seed=seed)
    return divide(every.in_memory(), validation, seed=seed)


def require_alike(paths: Sequence[str]) -> str:
    """The mode of images, which must be of one size and mode: one of another would end a run hours later."""

    def kind(path: str) -> tuple[int, int, str]:
        with open_image(Path(path), path) as image:
            return (*image.size, image.mode)

    first = kind(paths[0])
    for path in paths[1:]:
        if (other := kind(path)) != first:
            told = (
                f"{name} is {width}x{height} {mode}"
                for name, (width, height, mode) in ((paths[0], first), (path, other))
            )
            raise DataError(f"images must be of one size and mode: {', '.join(told)}")
    return first[-1]
