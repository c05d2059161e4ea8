"""Layers that several networks have and torch has not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Bias", "LastAxisBatchNorm", "SilentBatchNorm"]


class Bias(nn.Module):
    """Add a number of its own to every place of the last axes; all start at zero.

    Args:
        shape: Of these axes: the features of a vertex, or a whole map, as the paper's bias of the size of the state.
        device: Where the numbers are made.
        dtype: Their type.
    """

    def __init__(self, *shape: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class LastAxisBatchNorm(nn.BatchNorm1d):
    """Batch norm with the statistics of each feature, which stand last, over all else; affine at inference.

    Example:
        >>> LastAxisBatchNorm(4)(torch.randn(2, 10, 4)).shape
        torch.Size([2, 10, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(0, -2)).view_as(input)


class SilentBatchNorm(nn.BatchNorm2d):
    """Batch norm whose scale starts at 0: what it is given is absent at first.

    Example:
        >>> SilentBatchNorm(4)(torch.randn(2, 4, 3, 3)).abs().max().item()
        0.0
    """

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.weight)
