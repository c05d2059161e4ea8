"""The layout of images in memory."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["put_channels_last"]

_SAFE = 8  # channels


def put_channels_last(network: nn.Module, device: torch.device) -> None:
    """Lay weights out for images whose channels are last in memory, which convolutions are faster with.

    On CPUs with AVX2, torch 2.13 writes beyond the end of memory there for strided 1x1 convolutions of few channels.
    They are refused, since what follows is a crash or wrong numbers.
    """
    if device.type == "cpu":
        for name, module in network.named_modules():
            if isinstance(module, nn.Conv2d) and _is_unsafe(module):
                raise ValueError(
                    f"{name} is a strided 1x1 convolution of {module.in_channels} channels, which torch gets wrong on "
                    f"CPUs with channels last below {_SAFE}: widen the network, or set channels_last=no"
                )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _is_unsafe(layer: nn.Conv2d) -> bool:
    return layer.kernel_size == (1, 1) and max(layer.stride) > 1 and layer.in_channels // layer.groups < _SAFE
