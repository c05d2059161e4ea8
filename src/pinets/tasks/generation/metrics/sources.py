"""Reference images, to compare generated ones with: data sets, folders and tensors of uint8 images."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from pinets._nearest import did_you_mean
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import open_image
from pinets.data.registry import DATA_SETS, load
from pinets.data.samples import ImageSet
from pinets.data.sets.folders import image_files, require_alike
from pinets.data.splits import evenly_chosen

__all__ = ["FolderSource", "ImageSource", "TensorSource", "data_set_source", "find_source"]

Split = str  # "train" or "test"
_LOOKED_AT = 64  # files of a folder whose content goes into its fingerprint


class ImageSource(Protocol):
    """Images by index.

    ``name`` is for reports; ``fingerprint`` changes with the images, as the key of cached statistics.
    """

    @property
    def name(self) -> str: ...

    def __len__(self) -> int: ...

    def read(self, indices: Tensor) -> Tensor:
        """Images, uint8 (N, C, H, W) with one or three channels."""

    def fingerprint(self) -> str: ...


class TensorSource:
    """Images in memory.

    Args:
        name: What they are, for reports: ``"fashion_mnist/train, padded to 32"``.
        images: uint8, (N, C, H, W).
        labels: The class of each, which ``fid_small`` needs.

    Example:
        >>> len(TensorSource("black", torch.zeros(5, 1, 8, 8, dtype=torch.uint8)))
        5
    """

    def __init__(self, name: str, images: Tensor, labels: Tensor | None = None) -> None:
        require_images(images, f"the images of {name}")
        if labels is not None and labels.shape != images.shape[:1]:
            raise ValueError(f"{name} has {len(images)} images and labels of shape {tuple(labels.shape)}: one for each")
        self.name = name
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def read(self, indices: Tensor) -> Tensor:
        return self.images[indices]

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(tuple(self.images.shape)).encode())
        for part in self.images.split(4096):
            digest.update(part.contiguous().numpy().tobytes())
        if self.labels is not None:
            digest.update(repr(self.labels.tolist()).encode())
        return digest.hexdigest()


class FolderSource:
    """All images of a folder and the folders in it, decoded as they are read: all of one size, grey or RGB.

    Args:
        folder: Where they are.
    """

    labels = None

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise MissingDataError(f"there is no folder {self.folder}")
        self.paths = image_files(self.folder)
        if not self.paths:
            raise MissingDataError(f"{self.folder} holds no images")
        if (mode := require_alike(self.paths)) not in ("L", "RGB"):
            raise DataError(f"{self.paths[0]} has mode {mode}; images must be grey (L) or RGB")

    @property
    def name(self) -> str:
        return str(self.folder)

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, indices: Tensor) -> Tensor:
        images = []
        for path in (self.paths[index] for index in indices.tolist()):
            with open_image(Path(path), path) as image:
                pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
                images.append(pixels.view(image.height, image.width, -1).permute(2, 0, 1))
        return torch.stack(images)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in self.paths:
            facts = Path(path).stat()
            digest.update(f"{Path(path).relative_to(self.folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
        # other images may have the same names and sizes, and by an archive the same time
        for index in evenly_chosen(len(self), _LOOKED_AT).tolist():
            digest.update(Path(self.paths[index]).read_bytes())
        return digest.hexdigest()


def data_set_source(name: str, split: Split, data_dir: str | Path | None = None, *, pad: int = 0) -> TensorSource:
    """The images of a data set: all of its training images, or its test images.

    Args:
        name: One of :data:`pinets.data.DATA_SETS` that is held in memory, such as ``"cifar10"``.
        split: ``"train"``, with the images that are otherwise held out for validation, or ``"test"``.
        data_dir: Where data sets are; ``$PINETS_DATA`` or the user's cache if left out.
        pad: Black pixels to add on every side: 2 make Fashion-MNIST 32 by 32.
    """
    splits = load(name, data_dir)
    parts = (splits.train, splits.validation) if split == "train" else (splits.test,)
    if not all(isinstance(part, ImageSet) for part in parts):
        raise ValueError(f"{name} is not a set of images in memory; name the folder of its images instead")
    images, labels = torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
    padded = f", padded by {pad}" if pad else ""
    return TensorSource(f"{name}/{split}{padded}", F.pad(images, [pad] * 4), labels)


def find_source(
    text: str, split: Split, data_dir: str | Path | None = None, *, pad: int = 0
) -> TensorSource | FolderSource:
    """A data set by its name, or a folder by its path."""
    if text in DATA_SETS:
        return data_set_source(text, split, data_dir, pad=pad)
    if not Path(text).is_dir():
        raise ValueError(f"{text!r} is neither a folder nor a data set{did_you_mean(text, DATA_SETS)}")
    if pad:
        raise ValueError(f"only images of data sets are padded, and {text} is a folder")
    return FolderSource(text)


def require_images(images: Any, what: str) -> None:
    """Refuse anything but images: uint8 (N, C, H, W) with 1 or 3 channels."""
    fits = isinstance(images, Tensor) and images.dtype == torch.uint8 and images.ndim == 4
    if not fits or images.shape[1] not in (1, 3):
        found = f"{tuple(images.shape)} {images.dtype}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"{what} must be uint8 (N, C, H, W) with 1 or 3 channels, got {found}")
