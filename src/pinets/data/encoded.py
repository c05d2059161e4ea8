"""Images that stay encoded, in files or in shards, and are decoded as they are read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import torch
from torch import Tensor

from pinets.data.formats.decode import Crop, decode_image
from pinets.data.samples import ImageSet, Splits
from pinets.data.splits import hold_out, require_enough

__all__ = ["EncodedSet", "complete"]


@dataclass(frozen=True, eq=False)
class EncodedSet(ABC):
    """Encoded images with their labels.

    Args:
        labels: The class of each image.
        classes: The names of the classes.
        crop: What is cut out of each image as it is decoded.
    """

    labels: Tensor
    classes: tuple[str, ...]
    crop: Crop

    @property
    def draws(self) -> int:
        return self.crop.draws

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def encoded(self, index: int) -> tuple[str, bytes]:
        """The name of an image, for errors, and its bytes."""

    @abstractmethod
    def shuffled(self, generator: torch.Generator) -> Tensor: ...

    @abstractmethod
    def subset(self, indices: Tensor) -> Self: ...

    def read(self, indices: Tensor, uniforms: Tensor) -> Tensor:
        def decode(index: int, numbers: list[float]) -> Tensor:
            name, encoded = self.encoded(index)
            return decode_image(encoded, name, self.crop, numbers)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow decodes without holding the interpreter
            images = list(pool.map(decode, indices.tolist(), uniforms.tolist()))
        return torch.stack(images) if images else torch.empty(0, 3, self.crop.size, self.crop.size, dtype=torch.uint8)

    def with_crop(self, crop: Crop) -> Self:
        return replace(self, crop=crop)

    def in_memory(self) -> ImageSet:
        """Decode all images, once: for sets that fit."""
        if self.draws:
            raise ValueError(f"{self.crop} is random: give a set another crop before it is decoded for good")
        images = self.read(torch.arange(len(self)), torch.empty(len(self), 0))
        return ImageSet(images, self.labels, self.classes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images, {len(self.classes)} classes, {self.crop})"


Encoded = TypeVar("Encoded", bound=EncodedSet)


def complete(
    train: Encoded, *, test: Encoded | None, validation: Encoded | None, crop: Crop, fraction: float, seed: int
) -> Splits[Encoded]:
    """Make three parts of what a set brings: what is lacking is held out of the training images.

    Args:
        train: The images for training.
        test: The set's own test images, if it has them.
        validation: Its own validation images, if it has them.
        crop: For what is held out.
        fraction: Of every class, to hold out.
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
