"""The classifier on top of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["make_classifier"]


def make_classifier(
    num_features: int,
    num_classes: int,
    *,
    like: Tensor,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """A linear map from features to classes, started as torch does; nothing is done for 0 classes.

    Args:
        num_features: Size of what comes in.
        num_classes: Outputs; 0 for none.
        like: A weight of the network, which gives device and type where they are left out.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> make_classifier(8, 10, like=torch.zeros(1)), make_classifier(8, 0, like=torch.zeros(1))
        (Linear(in_features=8, out_features=10, bias=True), Identity())
    """
    if num_classes < 0:
        raise ValueError(f"num_classes must be at least 0, got {num_classes}")
    if num_classes == 0:
        return nn.Identity()
    return nn.Linear(num_features, num_classes, device=device or like.device, dtype=dtype or like.dtype)
