r"""A penalty on large outputs of layers, which keeps a polynomial tame where its data are.

A polynomial has no bound. Its training loss says nothing about one image of a thousand whose values grow from product
to product; a penalty on the outputs of layers does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import Tensor, nn

from pinets._nearest import did_you_mean
from pinets.data import Normalize, Transform
from pinets.engine.optimization import require_range

__all__ = ["BatchStatistics", "Damage", "LayerOutputs", "RangePenalty", "matching_layers"]


@dataclass(frozen=True)
class RangePenalty:
    r"""Add :math:`w \sum_l \mathrm{mean}(\log(1 + e_l))` to the loss, over layers l with outputs :math:`y_l`.

    The logarithm keeps an output that explodes from drowning the rest of the gradient.

    Args:
        weight: The factor w; 0 for no penalty.
        limit: The threshold t; values below it cost nothing.
        over: ``"values"`` takes :math:`e = \max(|y| - t, 0)^2` of each value, so a few large ones among thousands cost
            next to nothing. ``"images"`` takes the sum over each image, so one large value is enough.
        layers: Their names in the network; ``*`` stands for any part between two dots.
        damaged: Share of each batch that also passes damaged (:class:`Damage`), for the penalty alone.
    """

    weight: float = 0.3
    limit: float = 4.0
    over: Literal["values", "images"] = "values"
    layers: str = "blocks.*"
    damaged: float = 0.0

    def __post_init__(self) -> None:
        require_range("weight", self.weight, at_least=0)
        require_range("limit", self.limit, at_least=0)
        require_range("damaged", self.damaged, at_least=0, at_most=1)

    def of(self, outputs: list[Tensor]) -> Tensor:
        """The penalty for the outputs of all layers.

        >>> RangePenalty(weight=0.5, limit=4).of([torch.tensor([1.0, -6.0]), torch.tensor([7.0])])
        tensor(1.5537)
        """
        return self.weight * torch.stack([self._of(output.float()) for output in outputs]).sum()

    def _of(self, output: Tensor) -> Tensor:
        excess = (output.abs() - self.limit).relu()
        if self.over == "images":
            excess = torch.linalg.vector_norm(excess.flatten(1), dim=1, dtype=torch.float64)
        # log(1 + excess^2) without the square, which for an output above 1e19 is no float32
        return 2 * torch.hypot(excess, torch.ones_like(excess)).log().mean().float()


@dataclass(frozen=True)
class Damage:
    """Damage images beyond recognition: darker, up to twice as bright or negative, with any amount of noise.

    Args:
        black: Pixel 0 as the network sees it, one number per channel, of shape (channels, 1, 1).
        white: Pixel 1.
    """

    black: Tensor
    white: Tensor

    @staticmethod
    def of(normalize: Transform) -> Damage:
        """The damage for images with this normalisation."""
        if not isinstance(normalize, Normalize):
            raise ValueError(f"range_penalty.damaged is for normalised images, and these inputs are {normalize}")
        return Damage(*normalize.range())

    def __call__(self, inputs: Tensor) -> Tensor:
        black, white = self.black.to(inputs), self.white.to(inputs)
        pixels = (inputs - black) / (white - black)
        contrast, noise = inputs.new_empty(2, len(inputs), 1, 1, 1).uniform_()
        contrast = 3 * contrast - 1  # from the negative to twice the image
        pixels = contrast * pixels + (contrast < 0) + noise * torch.randn_like(inputs)
        return black + pixels.clamp(torch.zeros_like(contrast), contrast.clamp(min=1)) * (white - black)


class LayerOutputs:
    """Record the outputs of layers inside :meth:`recording`.

    Args:
        layers: The layers; a hook stays on each.
    """

    def __init__(self, layers: list[nn.Module]) -> None:
        self._recorded: list[Tensor] | None = None
        for layer in layers:
            layer.register_forward_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: object, output: Tensor) -> None:
        if self._recorded is not None:
            self._recorded.append(output)

    @contextmanager
    def recording(self) -> Iterator[list[Tensor]]:
        """The list to which the layers' outputs are added."""
        self._recorded = []
        try:
            yield self._recorded
        finally:
            self._recorded = None


class BatchStatistics:
    """Normalise images by the statistics of another batch, as inference does by those of the training images.

    The running averages of batch norm will not do in training: they are constants to the gradient, so a penalty would
    shrink the weights before each norm without end, and they would follow behind.

    Args:
        network: Hooks stay on its batch norms.
    """

    def __init__(self, network: nn.Module) -> None:
        self._kept: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._mode: Literal["keep", "use"] | None = None
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.register_forward_hook(self._after)

    def _after(self, layer: nn.BatchNorm2d, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
        if self._mode == "keep":
            variance, mean = torch.var_mean(inputs[0].float(), (0, 2, 3), correction=0, keepdim=True)
            self._kept[layer] = (mean, (variance + layer.eps).rsqrt())
        if self._mode != "use":
            return None
        mean, scale = self._kept[layer]
        weight, bias = (value.view(-1, 1, 1) for value in (layer.weight, layer.bias))
        return ((inputs[0] - mean) * (scale * weight) + bias).to(output.dtype)

    @contextmanager
    def doing(self, mode: Literal["keep", "use"]) -> Iterator[None]:
        """Keep the statistics of the batches that pass, or use those that were kept last."""
        self._mode = mode
        try:
            yield
        finally:
            self._mode = None


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
