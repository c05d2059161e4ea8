"""Many images as one picture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["image_grid"]


def image_grid(images: Tensor, columns: int | None = None, *, margin: int = 2) -> Tensor:
    """Images in rows and columns, white between them.

    Args:
        images: uint8, (N, C, H, W).
        columns: How many stand in a row; as many as rows, about, if left out.
        margin: Pixels between them.

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
