"""Transforms of whole batches, each a function of the batch and of uniform random numbers.

A transform states how many numbers it needs for one sample (``draws``). The caller draws them for the whole batch from
one generator, so that a resumed run repeats them bit for bit, and a process that holds some rows of a batch uses the
numbers of these rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from pinets.data.samples import ArraySet, ImageSet, SampleSet, read_fixed

__all__ = [
    "Chunked",
    "Compose",
    "Normalize",
    "RandomColour",
    "RandomCrop",
    "RandomErase",
    "RandomFlip",
    "RandomGrain",
    "RandomLight",
    "RandomSimilarity",
    "Transform",
    "draw_uniforms",
    "precompute",
    "whole_number",
]


class Transform(ABC):
    """Turn a batch into another; ``transform(batch, generator)`` draws the random numbers and applies it."""

    draws: int = 0  # uniform numbers in [0, 1) that one sample takes

    @abstractmethod
    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        """Transform a batch with the given numbers, float64 of shape ``(len(inputs), draws)``."""

    def __call__(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if self.draws and generator is None:
            raise TypeError(f"{type(self).__name__} is random: pass the torch.Generator it shall draw from")
        uniforms = draw_uniforms(len(inputs), self.draws, generator)
        return self.apply(inputs, uniforms.to(inputs.device))


class Compose(Transform):
    """One transform after the other.

    Example:
        >>> augment = Compose(RandomCrop(4), RandomFlip(), Normalize((0.5,), (0.5,)))
        >>> batch = torch.zeros(8, 1, 28, 28, dtype=torch.uint8)
        >>> augment(batch, torch.Generator().manual_seed(0)).unique()
        tensor([-1.])
    """

    def __init__(self, *transforms: Transform) -> None:
        self.transforms = transforms
        self.draws = sum(transform.draws for transform in transforms)

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        shares = uniforms.split([transform.draws for transform in self.transforms], dim=1)
        for transform, share in zip(self.transforms, shares, strict=True):
            inputs = transform.apply(inputs, share)
        return inputs

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.transforms))})"


@dataclass(frozen=True)
class Chunked(Transform):
    """Apply a transform to a few rows at a time, so that intermediate results stay in the processor's cache.

    Example:
        >>> Chunked(Normalize((0.5,), (0.5,)), rows=2)(torch.zeros(5, 1, 2, 2, dtype=torch.uint8)).shape
        torch.Size([5, 1, 2, 2])
    """

    transform: Transform
    rows: int

    @property
    def draws(self) -> int:  # type: ignore[override]
        return self.transform.draws

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        pieces = zip(inputs.split(self.rows), uniforms.split(self.rows), strict=True)
        return torch.cat([self.transform.apply(piece, share) for piece, share in pieces])


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Pad every side with zeros, then cut the original size out at a random place."""

    padding: int
    draws = 2

    def __post_init__(self) -> None:
        if self.padding < 1:
            raise ValueError(f"padding must be at least 1, got {self.padding}")

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        height, width = inputs.shape[-2:]
        padded = F.pad(inputs, (self.padding,) * 4)
        corner = whole_number(uniforms, 2 * self.padding + 1)  # (N, 2)
        rows = corner[:, 0, None] + torch.arange(height, device=inputs.device)
        columns = corner[:, 1, None] + torch.arange(width, device=inputs.device)
        # one flat index per pixel, the same for every channel: several times faster than indexing rows and columns
        pixels = (rows[:, :, None] * padded.shape[-1] + columns[:, None, :]).flatten(1)
        pixels = pixels[:, None, :].expand(-1, inputs.shape[1], -1)
        return padded.flatten(2).gather(2, pixels).view(inputs.shape)


@dataclass(frozen=True)
class RandomFlip(Transform):
    """Mirror an image left to right, with the given probability."""

    probability: float = 0.5
    draws = 1

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability must lie between 0 and 1, got {self.probability}")

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        flipped = uniforms[:, 0] < self.probability
        return torch.where(flipped[:, None, None, None], inputs.flip(-1), inputs)


@dataclass(frozen=True)
class Normalize(Transform):
    r"""Shift and scale every channel, :math:`(x / m - \mathrm{mean}) / \mathrm{std}`, as float32.

    Args:
        mean: One number per channel.
        std: One number per channel.
        maximum: :math:`m`, the input value that becomes 1; 255 for bytes.

    Example:
        >>> Normalize((0.5,), (0.25,))(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
        tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    maximum: float = 255.0

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(f"one mean and one std per channel, got {len(self.mean)} and {len(self.std)}")
        if min((*self.std, self.maximum)) <= 0:
            raise ValueError(f"std and maximum must be positive, got {self.std} and {self.maximum}")

    @classmethod
    def of(cls, samples: ImageSet) -> Self:
        """Normalisation by the mean and standard deviation of the given images, which must be the training images."""
        value = torch.arange(256, dtype=torch.float64) / 255
        mean, std = [], []
        for channel in samples.images.unbind(1):
            share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
            mean.append(float((share * value).sum()))
            deviation = float((share * (value - mean[-1]).square()).sum().sqrt())
            std.append(deviation or 1.0)  # a channel that is empty in all images stays so
        return cls(tuple(mean), tuple(std))

    def range(self) -> tuple[Tensor, Tensor]:
        """Black and white after normalisation, of shape (channels, 1, 1)."""
        mean, std = (torch.tensor(value).view(-1, 1, 1) for value in (self.mean, self.std))
        return -mean / std, (1 - mean) / std

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        if inputs.shape[1] != len(self.mean):
            raise ValueError(f"{self} is for {len(self.mean)} channels, got a batch of shape {tuple(inputs.shape)}")
        mean, std = (torch.tensor(value, device=inputs.device).view(-1, 1, 1) for value in (self.mean, self.std))
        return (inputs * (1 / (self.maximum * std))).sub_(mean / std)


@dataclass(frozen=True)
class RandomSimilarity(Transform):
    """Turn, scale and shift images at random; beyond the edges the image is mirrored.

    Args:
        degrees: The largest angle, to either side.
        scale: The largest share by which an image grows or shrinks.
        shift: The largest shift, in pixels, along each axis.

    Example:
        >>> images = torch.rand(4, 3, 16, 16)
        >>> same = RandomSimilarity(0, 0, 0)(images, torch.Generator())
        >>> torch.allclose(same, images, atol=1e-5)
        True
    """

    degrees: float
    scale: float
    shift: float
    draws = 4

    def __post_init__(self) -> None:
        if min(self.degrees, self.scale, self.shift) < 0 or self.scale >= 1:
            raise ValueError(f"degrees and shift must not be negative and scale must lie in [0, 1), got {self}")

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        height, width = inputs.shape[-2:]
        turn, grow, right, down = (2 * uniforms.float() - 1).unbind(1)
        angle = turn * math.radians(self.degrees)
        factor = 1 / (1 + grow * self.scale)
        cosine, sine = angle.cos() * factor, angle.sin() * factor
        # from places in the result to places in the image; both axes go from -1 to 1
        rows = [
            torch.stack([cosine, -sine * height / width, right * 2 * self.shift / width], dim=1),
            torch.stack([sine * width / height, cosine, down * 2 * self.shift / height], dim=1),
        ]
        grid = F.affine_grid(torch.stack(rows, dim=1), list(inputs.shape), align_corners=False)
        return F.grid_sample(inputs.float(), grid, padding_mode="reflection", align_corners=False)


@dataclass(frozen=True)
class RandomLight(Transform):
    """Change the contrast and the brightness of images at random.

    Args:
        contrast: The largest share by which differences from the image's mean grow or shrink.
        brightness: The largest share of ``maximum`` that is added or taken away.
        maximum: The value of white.
    """

    contrast: float
    brightness: float
    maximum: float = 255.0
    draws = 2

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        factor, offset = (2 * uniforms.float() - 1)[:, :, None, None, None].unbind(1)
        inputs = inputs.float()
        mean = inputs.mean((1, 2, 3), keepdim=True)
        changed = (inputs - mean) * (1 + factor * self.contrast) + mean + offset * self.brightness * self.maximum
        return changed.clamp(0, self.maximum)


@dataclass(frozen=True)
class RandomColour(Transform):
    """Make colours paler or more vivid at random.

    Args:
        most: Differences from a pixel's grey grow or shrink by up to this factor.
        maximum: The value of white.
    """

    most: float
    maximum: float = 255.0
    draws = 1

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        factor = self.most ** (2 * uniforms.float() - 1)[:, :, None, None]
        inputs = inputs.float()
        grey = inputs.mean(1, keepdim=True)
        return ((inputs - grey) * factor + grey).clamp(0, self.maximum)


@dataclass(frozen=True)
class RandomErase(Transform):
    """Fill a square at a random place with the image's mean colour (cutout).

    Args:
        side: The side of the square in pixels. Its centre is any pixel, so the image's edges may cut parts of it off.
    """

    side: int
    draws = 2

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ValueError(f"side must be at least 1, got {self.side}")

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        inputs = inputs.float()
        inside = []
        for axis, size in enumerate(inputs.shape[-2:]):
            first = whole_number(uniforms[:, axis, None], size) - self.side // 2
            place = torch.arange(size, device=inputs.device)
            inside.append((place >= first) & (place < first + self.side))
        rows, columns = inside
        erased = rows[:, None, :, None] & columns[:, None, None, :]
        return torch.where(erased, inputs.mean((2, 3), keepdim=True), inputs)


@dataclass(frozen=True)
class RandomGrain(Transform):
    """Add Gaussian noise to some of the images, a different amount to each.

    Args:
        largest: The largest standard deviation, as a share of ``maximum``.
        probability: The probability that an image gets any noise.
        maximum: The value of white.
    """

    largest: float
    probability: float = 0.2
    maximum: float = 255.0
    draws = 2

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must lie above 0 and be at most 1, got {self.probability}")

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        inputs = inputs.float()
        amount = (1 - uniforms[:, 0].float() / self.probability).clamp(min=0)  # uniform in (0, 1], or 0
        deviation = amount * self.largest * self.maximum
        seeds = whole_number(uniforms[:, 1], 2**53).tolist()  # of each image, whichever process holds it
        noise = [torch.randn(inputs.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        grain = torch.stack(noise).to(inputs) * deviation[:, None, None, None]
        return (inputs + grain).clamp(0, self.maximum)


def precompute(samples: SampleSet, transform: Transform, *, batch_size: int = 256) -> ArraySet:
    """Apply a transform without randomness to a whole dataset once, such as the features of validation clips.

    Example:
        >>> few = ImageSet(torch.full((3, 1, 2, 2), 255, dtype=torch.uint8), torch.zeros(3).long(), ("white",))
        >>> precompute(few, Normalize((0.5,), (0.5,))).inputs.unique()
        tensor([1.])
    """
    if samples.draws or transform.draws:
        raise ValueError(f"{transform} on {samples} is random: it cannot be computed once for all")
    parts = [transform(read_fixed(samples, indices)) for indices in torch.arange(len(samples)).split(batch_size)]
    return ArraySet(torch.cat(parts), samples.labels, samples.classes)


def draw_uniforms(count: int, draws: int, generator: torch.Generator | None) -> Tensor:
    """Draw ``draws`` numbers in [0, 1) for each of ``count`` samples."""
    return torch.rand(count, draws, dtype=torch.float64, generator=generator)


def whole_number(uniforms: Tensor, count: int) -> Tensor:
    """Turn uniform numbers in [0, 1) into whole numbers from 0 to ``count - 1``, all equally likely."""
    return (uniforms * count).long()
