"""Small random changes of place, size and light, for sets with few images of each class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pinets.data.transforms.images import Transform

__all__ = ["RandomLight", "RandomSimilarity"]


@dataclass(frozen=True)
class RandomSimilarity(Transform):
    """Turn, scale and shift images at random; what comes in at the edges is mirrored.

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

    def __post_init__(self) -> None:
        if min(self.degrees, self.scale, self.shift) < 0 or self.scale >= 1:
            raise ValueError(f"degrees and shift must not be negative and scale must lie in [0, 1), got {self}")

    @property
    def draws(self) -> int:
        return 4

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

    @property
    def draws(self) -> int:
        return 2

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        factor, offset = (2 * uniforms.float() - 1)[:, :, None, None, None].unbind(1)
        inputs = inputs.float()
        mean = inputs.mean((1, 2, 3), keepdim=True)
        changed = (inputs - mean) * (1 + factor * self.contrast) + mean + offset * self.brightness * self.maximum
        return changed.clamp(0, self.maximum)
