"""The floor of a residual Π-net: its blocks with the convolutions of their products and nothing else of them."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from pinets.models.residual import Join, ResidualBlock

__all__ = ["convolutions_alone"]


class _AddConvolved(Join):
    """Adds the shortcut, and the shortcut after the convolutions of a product: not the product, nothing else of it."""

    def __init__(self, join: Join) -> None:
        super().__init__(join.activation)
        self.convolutions = nn.Sequential(*(module for module in join.modules() if isinstance(module, nn.Conv2d)))

    def forward(self, shortcut: Tensor, branch: Tensor) -> Tensor:
        return self.activation(branch + shortcut + self.convolutions(shortcut))


def convolutions_alone(network: nn.Module) -> nn.Module:
    """A copy whose blocks add and run the convolutions of their products, on values that cost nothing to make.

    The time of this network is a floor: multiplying, normalising and bounding the product come on top.
    """
    changed = copy.deepcopy(network)
    for module in changed.modules():
        if isinstance(module, ResidualBlock):
            module.join = _AddConvolved(module.join)
    return changed
