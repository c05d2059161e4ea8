"""The shape of an input, told from a network's first operator."""

from __future__ import annotations

from torch import nn

__all__ = ["infer_input_shape"]


def infer_input_shape(network: nn.Module) -> tuple[int, ...] | None:
    """The shape of one input without the batch, or None if the first operator does not tell it.

    A convolution takes any height and width: 8 are assumed, or as many as its kernel needs.

    >>> infer_input_shape(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)))
    (784,)
    >>> infer_input_shape(nn.Conv2d(3, 16, kernel_size=3))
    (3, 8, 8)
    """
    for part in network.modules():
        if isinstance(part, nn.Linear):
            return (part.in_features,)
        if isinstance(part, nn.modules.conv._ConvNd):
            reach = (1 + (size - 1) * step for size, step in zip(part.kernel_size, part.dilation, strict=True))
            return (part.in_channels, *(max(8, size) for size in reach))
        if isinstance(part, nn.LayerNorm):
            return tuple(part.normalized_shape)
        if next(part.parameters(recurse=False), None) is not None:
            return None  # an operator of another kind comes first
    return None
