"""Folders of images, one folder for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from pinets.data.encoded import EncodedSet, complete
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.decode import CentreCrop, Crop, RandomResizedCrop
from pinets.data.samples import Splits

__all__ = [
    "FolderSet",
    "crops",
    "image_files",
    "label_folders",
    "read_class_folders",
    "read_image_folder",
    "read_listed_images",
]

_IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True, eq=False, repr=False)
class FolderSet(EncodedSet):
    """Image files that are decoded as they are read."""

    paths: tuple[str, ...]

    def encoded(self, index: int) -> tuple[str, bytes]:
        path = self.paths[index]
        try:
            return path, Path(path).read_bytes()
        except FileNotFoundError as error:
            raise MissingDataError(f"{path} was there when the folder was listed, and is gone now") from error

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    def subset(self, indices: Tensor) -> Self:
        paths = tuple(self.paths[index] for index in indices.tolist())
        return replace(self, paths=paths, labels=self.labels[indices])


def crops(size: int) -> tuple[Crop, Crop]:
    """The usual crops for training and for evaluation: the latter keeps the central 7/8, as 224 of 256 pixels."""
    return RandomResizedCrop(size), CentreCrop(size, resize=round(size * 8 / 7))


def read_image_folder(folder: Path, *, size: int = 224, validation: float = 0.1, seed: int = 0) -> Splits[FolderSet]:
    """Read images from folders, one for each class, at any depth within it.

    ``folder`` may hold ``train`` and ``test`` (or ``val``, which then is the test set, as for ImageNet), and both
    ``val`` and ``test`` if the set defines its own validation images. Without any of these the folders of the classes
    stand in ``folder`` itself, and the test images are held out as the validation images are.

    Args:
        folder: The root.
        size: Of the images: a random part of them for training, the centre for validation and test.
        validation: The fraction of every class held out of the training images, where the set defines none.
        seed: Decides which images are held out.
    """
    train_crop, test_crop = crops(size)
    own = [name for name in ("test", "val") if (folder / name).is_dir()]
    if own and not (folder / "train").is_dir():
        raise MissingDataError(f"{folder / 'train'} is missing, but {folder / own[0]} is there: a set has both")
    train = read_class_folders(folder / "train" if (folder / "train").is_dir() else folder, train_crop)
    held = [read_class_folders(folder / name, test_crop, train.classes) for name in own]
    test, own_validation = [*held, None, None][:2]  # a single one is the test set, whatever its name
    return complete(train, test=test, validation=own_validation, crop=test_crop, fraction=validation, seed=seed)


def read_class_folders(folder: Path, crop: Crop, classes: Sequence[str] | None = None) -> FolderSet:
    """List the images of the folders of classes in ``folder``.

    Args:
        folder: Holds one folder for each class.
        crop: For decoding.
        classes: The classes there may be, in order; all that are found if left out.
    """
    if not folder.is_dir():
        raise MissingDataError(f"{folder} is missing")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not found:
        raise MissingDataError(f"{folder} has no folders: there must be one for each class")
    for name in found:
        if classes is not None and name not in classes:
            raise DataError(f"{folder / name}: there is no class {name!r} among the training images")
    return label_folders(folder, found, crop, classes)


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
    """List the images that stand in one folder, their classes given by a list.

    Args:
        folder: Holds the images.
        listing: The class of each image, by the name of its file without the ending.
        crop: For decoding.
        classes: The classes there may be, in order.
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
    return sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in _IMAGES and path.is_file())
