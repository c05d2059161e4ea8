"""The layout of images in memory."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["put_channels_last"]

_SAFE = 16  # channels, as many as numbers in the widest register of a CPU (AVX-512)


def put_channels_last(network: nn.Module, device: torch.device) -> None:
    """Lay weights out for images whose channels are last in memory, which convolutions are faster with.

    On CPUs, torch 2.13 writes beyond the end of memory there in the backward pass of strided 1x1 convolutions whose
    channels do not fill a register: fewer than 8 with AVX2, fewer than 16 with AVX-512. They are refused on every CPU,
    since what follows is a crash or wrong numbers, sometimes much later.
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
