"""Images that stay encoded, in files or in shards, and are decoded when they are read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import torch
from torch import Tensor

from pinets.data.errors import MissingDataError
from pinets.data.formats.images import Crop, decode_image, is_grey
from pinets.data.samples import ImageSet, Splits, read_fixed
from pinets.data.splits import hold_out, require_enough

__all__ = ["EncodedSet", "complete", "in_their_channels"]


@dataclass(frozen=True, eq=False)
class EncodedSet(ABC):
    """Encoded images with their labels.

    Args:
        labels: The class of each image.
        classes: The names of the classes.
        crop: The part of each image that is decoded.
        channels: 3 for RGB, 1 for grey.
    """

    labels: Tensor
    classes: tuple[str, ...]
    crop: Crop
    channels: int = field(default=3, kw_only=True)

    @property
    def draws(self) -> int:
        return self.crop.draws

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def encoded(self, index: int) -> tuple[str, bytes]:
        """The name of an image, for errors, and its bytes."""

    def stored(self, index: int) -> bytes:
        """The bytes of an image, for :func:`~pinets.data.samples.fingerprint`."""
        return self.encoded(index)[1]

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    @abstractmethod
    def subset(self, indices: Tensor) -> Self: ...

    def read(self, indices: Tensor, uniforms: Tensor) -> Tensor:
        def decode(index: int, numbers: list[float]) -> Tensor:
            try:
                name, encoded = self.encoded(index)
            except FileNotFoundError as error:
                raise MissingDataError(
                    f"{error.filename} was there when the set was opened, and is gone now"
                ) from error
            return decode_image(encoded, name, self.crop, numbers, self.channels)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow decodes without holding the interpreter
            images = list(pool.map(decode, indices.tolist(), uniforms.tolist()))
        empty = torch.empty(0, self.channels, self.crop.size, self.crop.size, dtype=torch.uint8)
        return torch.stack(images) if images else empty

    def with_crop(self, crop: Crop) -> Self:
        return replace(self, crop=crop)

    def in_memory(self) -> ImageSet:
        """Decode all images, once; for datasets that fit into memory."""
        if self.draws:
            raise ValueError(f"{self.crop} is random: give a set another crop before it is decoded for good")
        return ImageSet(read_fixed(self, torch.arange(len(self))), self.labels, self.classes)

    def __repr__(self) -> str:
        grey = "grey " if self.channels == 1 else ""
        return f"{type(self).__name__}({len(self)} {grey}images, {len(self.classes)} classes, {self.crop})"


Encoded = TypeVar("Encoded", bound=EncodedSet)


def in_their_channels(*parts: Encoded) -> list[Encoded]:
    """The parts of a dataset with one channel if all images are grey, and as RGB otherwise.

    The headers of the images are read up to the first in colour.
    """

    def all_grey(part: Encoded) -> bool:
        return all(is_grey(encoded, name) for name, encoded in map(part.encoded, range(len(part))))

    channels = 1 if all(map(all_grey, parts)) else 3
    return [replace(part, channels=channels) for part in parts]


def complete(
    train: Encoded, *, test: Encoded | None, validation: Encoded | None, crop: Crop, fraction: float, seed: int
) -> Splits[Encoded]:
    """The three parts of a dataset; those that it lacks are held out of the training images.

    Args:
        train: The training images.
        test: The dataset's own test images, if it has them.
        validation: Its own validation images, if it has them.
        crop: For images that are held out.
        fraction: The share of every class to hold out.
        seed: Decides which images are held out.
    """
    if test is None and validation is None:
        require_enough(train.labels, parts=2)
    if test is None:
        train, held = hold_out(train, fraction, seed=seed)
        test = held.with_crop(crop)
    if validation is None:
        train, held = hold_out(train, fraction, seed=seed + 1)
        validation = held.with_crop(crop)
    return Splits(train, validation=validation, test=test)
