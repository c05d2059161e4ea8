"""What no implementation of a residual Π-net can be faster than: its baseline's blocks and its own convolutions."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import Tensor, nn

from pinets.models.blocks import ResidualBlock
from pinets.models.join import Add, Join

__all__ = ["convolutions_alone", "without_products"]


class _AddConvolved(Join):
    """Adds the shortcut, and the shortcut after the convolutions of a product: not the product, nothing else of it."""

    def __init__(self, join: Join) -> None:
        super().__init__(join.activation)
        self.convolutions = nn.Sequential(*(module for module in join.modules() if isinstance(module, nn.Conv2d)))

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        return self.activation(last(branch) + shortcut + self.convolutions(shortcut))


def without_products(network: nn.Module) -> nn.Module:
    """A copy whose blocks only add."""
    return _with_joins(network, lambda join: Add(join.activation))


def convolutions_alone(network: nn.Module) -> nn.Module:
    """A copy whose blocks add and run the convolutions of their products, on values that cost nothing to make.

    The time of this network is a floor: multiplying, normalising and bounding the product come on top.
    """
    return _with_joins(network, _AddConvolved)


def _with_joins(network: nn.Module, make: Callable[[Join], Join]) -> nn.Module:
    changed = copy.deepcopy(network)
    for module in changed.modules():
        if isinstance(module, ResidualBlock):
            module.join = make(module.join)
    return changed
