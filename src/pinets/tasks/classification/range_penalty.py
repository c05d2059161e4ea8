r"""A penalty on large outputs of layers, which keeps a polynomial tame where its data are.

A polynomial has no bound. Its training loss says nothing about one image of a thousand whose values grow from product
to product; a penalty on what the layers give does.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from pinets._nearest import did_you_mean
from pinets.engine.optimization import require_range

__all__ = ["LayerOutputs", "RangePenalty", "matching_layers"]


@dataclass(frozen=True)
class RangePenalty:
    r"""Add :math:`w \sum_l \mathrm{mean}(\max(|y_l| - t, 0)^2)` to the loss, over layers :math:`l` with outputs y.

    Args:
        weight: The factor w; 0 for no penalty.
        limit: The threshold t; values below it cost nothing.
        layers: Their names in the network; ``*`` stands for any part between two dots.
    """

    weight: float = 0.3
    limit: float = 4.0
    layers: str = "blocks.*"

    def __post_init__(self) -> None:
        require_range("weight", self.weight, at_least=0)
        require_range("limit", self.limit, at_least=0)

    def of(self, outputs: list[Tensor]) -> Tensor:
        """The penalty for the outputs of all layers.

        >>> RangePenalty(weight=0.5, limit=4).of([torch.tensor([1.0, -6.0]), torch.tensor([7.0])])
        tensor(5.5000)
        """
        excess = [(output.float().abs() - self.limit).relu().square().mean() for output in outputs]
        return self.weight * torch.stack(excess).sum()


class LayerOutputs:
    """Keep what layers give in training mode until :meth:`take` is called.

    Args:
        layers: The layers; a hook stays on each.
    """

    def __init__(self, layers: list[nn.Module]) -> None:
        self._outputs: list[Tensor] = []
        for layer in layers:
            layer.register_forward_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: object, output: Tensor) -> None:
        if layer.training:
            self._outputs.append(output)

    def take(self) -> list[Tensor]:
        """The outputs since the last call, which are forgotten."""
        outputs = list(self._outputs)
        self._outputs.clear()
        return outputs


def matching_layers(network: nn.Module, pattern: str) -> list[nn.Module]:
    """The layers whose names match a pattern such as ``blocks.*``; it is an error if there are none.

    >>> matching_layers(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))), "*")[0]
    Linear(in_features=2, out_features=2, bias=True)
    """
    parts = pattern.split(".")
    named = {name: layer for name, layer in network.named_modules() if name}
    found = [
        layer
        for name, layer in named.items()
        if len(split := name.split(".")) == len(parts) and all(map(fnmatchcase, split, parts))
    ]
    if not found:
        raise ValueError(f"the network has no layers {pattern!r}{did_you_mean(pattern, named)}")
    return found
