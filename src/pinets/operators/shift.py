"""Mix neighbouring pixels without weights: shift each quarter of the channels by one pixel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SpatialShift"]


class SpatialShift(nn.Module):
    """Shift the four quarters of the channels down, up, right and left by one pixel; the border keeps its values.

    The input is (batch, height, width, channels). Linear, without parameters.

    Example:
        >>> x = torch.arange(3.0).reshape(1, 3, 1, 1).expand(1, 3, 1, 4)
        >>> SpatialShift()(x)[0, :, 0].T
        tensor([[0., 0., 1.],
                [1., 2., 2.],
                [0., 1., 2.],
                [0., 1., 2.]])
    """

    def forward(self, x: Tensor) -> Tensor:
        down, up, right, left = x.tensor_split(4, dim=-1)
        return torch.cat(
            [
                torch.cat([down[:, :1], down[:, :-1]], dim=1),
                torch.cat([up[:, 1:], up[:, -1:]], dim=1),
                torch.cat([right[:, :, :1], right[:, :, :-1]], dim=2),
                torch.cat([left[:, :, 1:], left[:, :, -1:]], dim=2),
            ],
            dim=-1,
        )
