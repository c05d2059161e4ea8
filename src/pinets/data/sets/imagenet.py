"""ImageNet (ILSVRC 2012) and Tiny ImageNet, whose validation images may be in one folder with a list of classes."""

from __future__ import annotations

from pathlib import Path

from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop, Crop
from pinets.data.formats.text import read_text
from pinets.data.samples import ImageSet, Splits
from pinets.data.sets.folders import FolderSet, crops, image_files, read_class_folders, read_listed_images
from pinets.data.splits import hold_out

__all__ = ["read_imagenet", "read_tiny_imagenet"]

_LISTS = ("LOC_val_solution.csv", "val_annotations.txt", "val.txt")


def read_imagenet(folder: Path, *, size: int = 224, validation: float = 0.02, seed: int = 0) -> Splits[FolderSet]:
    """Read ImageNet from ``train/<class>/*.JPEG`` and ``val``; its 50,000 validation images are our test set.

    ``val`` holds either folders of classes, or all images in one folder beside a list of two columns, the image and its
    class: ``LOC_val_solution.csv`` of the Kaggle version, or a ``val.txt`` like ``ILSVRC2012_val_00000001 n01751748``.

    Args:
        folder: Holds ``train`` and ``val``.
        size: Height and width of a random part of each image for training, and of its centre for validation and test.
        validation: The fraction of every class held out of the training images.
        seed: Decides which images are held out.
    """
    train_crop, test_crop = crops(size)
    whole = read_class_folders(folder / "train", train_crop)
    train, held = hold_out(whole, validation, seed=seed)
    return Splits(train, held.with_crop(test_crop), _validation_images(folder, test_crop, whole.classes))


def read_tiny_imagenet(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read Tiny ImageNet (64x64) into memory; its validation images are our test set, its test set has no labels.

    It has ``train/<class>/images`` and ``val/images`` with ``val/val_annotations.txt``.
    """
    crop = CentreCrop(64, resize=64)
    whole = read_class_folders(folder / "train", crop)
    test = _validation_images(folder, crop, whole.classes).in_memory()
    return Splits(*hold_out(whole.in_memory(), validation, seed=seed), test)


def _validation_images(folder: Path, crop: Crop, classes: tuple[str, ...]) -> FolderSet:
    images = folder / "val"
    lists = [place / name for place in (images, folder) for name in _LISTS if (place / name).is_file()]
    if lists:
        return read_listed_images(images, _read_list(lists[0]), crop, classes)
    if not any(path.is_dir() for path in images.glob("*")) and image_files(images):
        raise MissingDataError(f"{images} holds no folders of classes, so one of {', '.join(_LISTS)} must be beside it")
    return read_class_folders(images, crop, classes)


def _read_list(path: Path) -> dict[str, str]:
    """The class of each image: the first two words of a line, after a header in the case of CSV."""
    classes = {}
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.replace(",", " ").split()
        if not words or words[0] == "ImageId":
            continue
        if len(words) < 2:
            raise DataError(f"{path}, line {number}: must name an image and its class, got {line!r}")
        classes[Path(words[0]).stem] = words[1]
    return classes
