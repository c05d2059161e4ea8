"""The number of parameters of a network, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["count_parameters"]


def count_parameters(network: nn.Module) -> str:
    """The number of parameters, and how many are trained where some are frozen.

    >>> from torch import nn
    >>> count_parameters(nn.Linear(1000, 2))
    '2,002 parameters'
    >>> count_parameters(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).requires_grad_(False)))
    '11 parameters, 8 of them trained'
    """
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in network.parameters()]
    all_of_them, trained = sum(count for count, _ in counts), sum(count for count, learns in counts if learns)
    return f"{all_of_them:,} parameters" + (f", {trained:,} of them trained" if trained < all_of_them else "")
