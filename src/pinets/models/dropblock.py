"""DropBlock: dropout for maps, of whole squares."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["DropBlock"]


class DropBlock(nn.Module):
    """While training, set squares of each channel to zero and scale up what is left; afterwards, do nothing.

    Args:
        size: Side of the squares; at most that of the map is used.
        rate: The share of a map that is dropped, on average.
    """

    def __init__(self, size: int = 7, rate: float = 0.1) -> None:
        super().__init__()
        if size < 1 or not 0 <= rate < 1:
            raise ValueError(f"size must be at least 1 and rate in [0, 1), got size={size} and rate={rate}")
        self.size = size
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        height, width = x.shape[-2:]
        size = min(self.size, height, width)
        rows, columns = height - size + 1, width - size + 1  # where the corner of a square may lie
        corners = x.new_empty(*x.shape[:2], rows, columns).bernoulli_(
            self.rate * height * width / (size**2 * rows * columns)
        )
        dropped = F.max_pool2d(F.pad(corners, [size - 1] * 4), size, stride=1)
        kept = 1 - dropped
        return x * kept * (kept.numel() / kept.sum().clamp(min=1))

    def extra_repr(self) -> str:
        return f"size={self.size}, rate={self.rate}"
