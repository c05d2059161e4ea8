"""A plain discriminator: strided convolutions with spectral norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from pinets.models.generation.generator import check_image
from pinets.models.registry import register

__all__ = ["strided_discriminator"]


def strided_discriminator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """One number for each image, by convolutions that halve height and width down to 4x4, and a linear layer.

    Its channels are many only where maps are small, so that it is several times faster than a residual one.

    Args:
        size: Height and width of the images, a power of two.
        channels: Of the images.
        width: Channels of the first map; each further one has twice as many.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> strided_discriminator(width=8)(torch.randn(2, 1, 32, 32)).shape
        torch.Size([2])
    """
    factory: dict[str, Any] = {"device": device, "dtype": dtype}
    layers: list[nn.Module] = []
    before = channels
    for n in range(check_image(size, channels)):
        after = width << n
        layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, padding=1, **factory)), nn.LeakyReLU(0.1, inplace=True)]
        before = after
    head = spectral_norm(nn.Linear(before * 16, 1, **factory))
    return nn.Sequential(*layers, nn.Flatten(), head, nn.Flatten(0))


register(
    "strided_discriminator",
    strided_discriminator,
    summary="a plain discriminator: strided convolutions with spectral norm",
    input_shape=(1, 32, 32),
    toy={"width": 4},
    task="discrimination",
)
