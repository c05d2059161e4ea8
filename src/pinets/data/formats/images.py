"""Image files: decoding with Pillow, cropping while decoding because images differ in size, PNG, and grids."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError

__all__ = [
    "CentreCrop",
    "Crop",
    "RandomResizedCrop",
    "decode_image",
    "encode_png",
    "image_grid",
    "is_grey",
    "open_image",
]

_TRIES = 10  # attempts to find a box that fits into the image
_GREY = ("1", "L", "LA")  # Pillow's modes of images with one channel, with or without transparency


class Crop(ABC):
    """Choose a box of an image and scale it to ``size`` by ``size`` pixels."""

    size: int
    draws: int = 0  # uniform random numbers that one image takes

    @abstractmethod
    def box(self, width: int, height: int, uniforms: Sequence[float]) -> tuple[float, float, float, float]:
        """Left, upper, right and lower edge of what is kept."""


@dataclass(frozen=True)
class CentreCrop(Crop):
    """Scale the shorter side to ``resize`` pixels and keep the central ``size`` by ``size``.

    Example:
        >>> CentreCrop(size=224, resize=256).box(512, 768, ())
        (32.0, 160.0, 480.0, 608.0)
    """

    size: int
    resize: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise ValueError(f"size must lie between 1 and resize, got size {self.size} and resize {self.resize}")

    def box(self, width: int, height: int, uniforms: Sequence[float]) -> tuple[float, float, float, float]:
        side = min(width, height) * self.size / self.resize
        left, upper = (width - side) / 2, (height - side) / 2
        return left, upper, left + side, upper + side


@dataclass(frozen=True)
class RandomResizedCrop(Crop):
    """Keep a random part of the image: its area and its aspect ratio (log-uniform) are drawn, then its place."""

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    draws = 2 * _TRIES + 2

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}")
        if not 0 < self.scale[0] <= self.scale[1] <= 1 or not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"scale must lie in (0, 1] and ratio be positive, got {self.scale} and {self.ratio}")

    def box(self, width: int, height: int, uniforms: Sequence[float]) -> tuple[float, float, float, float]:
        right, down = uniforms[-2:]
        low, high = map(math.log, self.ratio)
        for area_number, ratio_number in zip(uniforms[:-2:2], uniforms[1:-2:2], strict=True):
            area = width * height * (self.scale[0] + (self.scale[1] - self.scale[0]) * area_number)
            ratio = math.exp(low + (high - low) * ratio_number)
            w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
            if w <= width and h <= height:
                break
        else:  # none fits a very long image: the largest central part of an allowed ratio
            w = min(width, height * self.ratio[1])
            h = min(height, width / self.ratio[0])
            right = down = 0.5
        left, upper = (width - w) * right, (height - h) * down
        return left, upper, left + w, upper + h


@contextmanager
def open_image(file: Path | io.BytesIO, name: str | Path) -> Iterator[Any]:
    """Open an image with Pillow; if it cannot be decoded in the ``with`` statement, a :class:`DataError` names it."""
    image_module = require("PIL.Image", extra="train")
    try:
        with image_module.open(file) as image:
            yield image
    except DataError:  # names the file already
        raise
    except image_module.UnidentifiedImageError as error:  # Pillow's own text names an address in memory
        raise DataError(f"{name}: cannot be decoded as an image (it does not begin as one)") from error
    # what Pillow raises for damaged files: OSError, SyntaxError and ValueError by format, and for a bomb its own
    except (OSError, SyntaxError, ValueError, EOFError, image_module.DecompressionBombError) as error:
        raise DataError(f"{name}: cannot be decoded as an image ({error})") from error


def is_grey(encoded: bytes, name: str) -> bool:
    """Whether an image has one channel, by its header."""
    with open_image(io.BytesIO(encoded), name) as image:
        return image.mode in _GREY


def decode_image(encoded: bytes, name: str, crop: Crop, uniforms: Sequence[float], channels: int = 3) -> Tensor:
    """Decode an image to uint8 of shape (channels, size, size), turned as its EXIF data say.

    Args:
        encoded: The bytes of an image file.
        name: The name of the file, for errors.
        crop: Which part is kept, at which size.
        uniforms: The random numbers of the crop.
        channels: 3 for RGB, 1 for grey.
    """
    bilinear = require("PIL.Image", extra="train").Resampling.BILINEAR
    with open_image(io.BytesIO(encoded), name) as image:
        if image.mode.startswith(("I", "F")):  # Pillow would cut such values off at 255
            raise DataError(f"{name}: has mode {image.mode}; images must have 8 bits a channel")
        image.load()  # a damaged picture is refused here
        # Cameras store photos as the sensor saw them, with a note on how to turn them. Damaged notes, for which Pillow
        # raises anything, are no reason to refuse the picture.
        with suppress(Exception):
            require("PIL.ImageOps", extra="train").exif_transpose(image, in_place=True)
        width, height = image.size
        box = crop.box(width, height, uniforms)
        picture = image.convert("L" if channels == 1 else "RGB").resize((crop.size, crop.size), bilinear, box=box)
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return pixels.view(crop.size, crop.size, channels).permute(2, 0, 1)


def encode_png(image: Tensor) -> bytes:
    """Encode a uint8 image of shape (C, H, W), one or three channels, without loss."""
    image_module = require("PIL.Image", extra="train")
    channels, height, width = image.shape
    mode: Any = {1: "L", 3: "RGB"}.get(channels)
    if mode is None:
        raise ValueError(f"images have 1 or 3 channels, got {channels}")
    pixels = bytes(image.permute(1, 2, 0).contiguous().flatten().tolist())
    buffer = io.BytesIO()
    image_module.frombytes(mode, (width, height), pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def image_grid(images: Tensor, columns: int | None = None, *, margin: int = 2) -> Tensor:
    """Images in rows and columns as one picture, white between them.

    Args:
        images: uint8, (N, C, H, W).
        columns: Images in a row; by default as many as rows, about.
        margin: Pixels between images.

    Example:
        >>> image_grid(torch.zeros(5, 1, 2, 2, dtype=torch.uint8), columns=3, margin=1)[0]
        tensor([[  0,   0, 255,   0,   0, 255,   0,   0],
                [  0,   0, 255,   0,   0, 255,   0,   0],
                [255, 255, 255, 255, 255, 255, 255, 255],
                [  0,   0, 255,   0,   0, 255, 255, 255],
                [  0,   0, 255,   0,   0, 255, 255, 255]], dtype=torch.uint8)
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or len(images) == 0:
        raise ValueError(f"images must be uint8 (N, C, H, W), at least one, got {tuple(images.shape)} {images.dtype}")
    count, channels, height, width = images.shape
    if columns is None:
        columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cells = images.new_full((rows * columns, channels, height + margin, width + margin), 255)
    cells[:count, :, :height, :width] = images
    cells = cells.view(rows, columns, channels, height + margin, width + margin)
    grid = cells.permute(2, 0, 3, 1, 4).reshape(channels, rows * (height + margin), columns * (width + margin))
    return grid[:, : grid.shape[1] - margin, : grid.shape[2] - margin]
