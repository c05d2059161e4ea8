"""Folders of images without classes, to generate more of their kind: FFHQ, LFWcrop, your own."""

from __future__ import annotations

from pathlib import Path

import torch

from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.decode import CentreCrop, open_image
from pinets.data.samples import ImageSet, Splits
from pinets.data.sets.folders import FolderSet, image_files
from pinets.data.splits import divide

__all__ = ["read_pictures"]

_IN_MEMORY = 2**30  # bytes: sets that take less are decoded once


def read_pictures(
    folder: Path, *, size: int = 64, validation: float = 0.1, seed: int = 0
) -> Splits[ImageSet] | Splits[FolderSet]:
    """Read all images of a folder and the folders in it: all of one size and mode, scaled to ``size``.

    Args:
        folder: Where they are.
        size: Height and width; of images that are not square the centre is kept.
        validation: The fraction held out, once for validation and once for the test.
        seed: Decides which images are held out.
    """
    paths = image_files(folder)
    if not paths:
        raise MissingDataError(f"{folder} holds no images")
    _require_alike(paths)
    labels = torch.zeros(len(paths), dtype=torch.int64)
    every: FolderSet = FolderSet(labels, ("image",), CentreCrop(size, resize=size), tuple(paths))
    if len(paths) * 3 * size * size > _IN_MEMORY:
        return divide(every, validation, seed=seed)
    return divide(every.in_memory(), validation, seed=seed)


def _require_alike(paths: list[str]) -> None:
    """Look at the headers before anything long is done: one image of another kind would only be found hours later."""
    first = _kind(paths[0])
    for path in paths[1:]:
        if (kind := _kind(path)) != first:
            raise DataError(
                f"images must be of one size and mode: {paths[0]} is {_describe(*first)}, {path} is {_describe(*kind)}"
            )


def _kind(path: str) -> tuple[int, int, str]:
    with open_image(Path(path), path) as image:
        return (*image.size, image.mode)


def _describe(width: int, height: int, mode: str) -> str:
    return f"{width}x{height} {mode}"
