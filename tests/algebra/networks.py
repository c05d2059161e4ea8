"""Small networks that several tests take."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

CONV = partial(nn.Conv2d, kernel_size=3, padding=1)


class Function(nn.Module):
    """A network that is one function."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)
