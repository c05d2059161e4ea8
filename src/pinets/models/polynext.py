r"""PolyNeXt: backbones without activations, of cells that read the outputs of the two cells before them.

A cell begins with :math:`p = \mathrm{norm}(a_0 * s_0 + a_1 * s_1)`, where :math:`a` are learnt scales of the channels,
and alternates two updates, both second-order steps scaled by a learnt ratio :math:`r` between 0 and 1:

.. math:: p \leftarrow p + r\,\mathrm{norm}(W (A b * \mathrm{flip}(B b))), \quad b = P p, \qquad
    p \leftarrow p + r\,W \mathrm{norm}(h * l), \quad (h, l) = P p

with depth-wise convolutions :math:`A` and :math:`B` and 1x1 convolutions :math:`P` and :math:`W`. Networks with
attention replace the first update in their last two stages. With layer norm, as published, the network is not a
polynomial; with batch norm for each pixel it is one at inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pinets.models.parts import Classifier
from pinets.models.polynext_layers import (
    AttentionUpdate,
    BilinearUpdate,
    ChannelNorm,
    ConvUpdate,
    MakeNorm,
    PixelBatchNorm,
    RowSumNorm,
    depthwise,
    logit,
)
from pinets.models.registry import register
from pinets.models.residual import convolution
from pinets.polynomial import Step

__all__ = ["Cell", "PolyNeXt"]

_OUTPUT = 2  # the head has twice the channels of the last cell


class Cell(nn.Module):
    """Add the two last outputs, then update the sum in turns.

    Args:
        channels: Channels of the map.
        updates: The updates, in order.
        norm: The normalisation of the sum.
        ratios: What the learnt numbers start at, whose sigmoids are the ratios.
        paired: Whether updates 2k + 1 and 2k + 2 share a ratio; otherwise each has its own.
    """

    def __init__(
        self, channels: int, updates: Sequence[nn.Module], *, norm: nn.Module, ratios: Sequence[float], paired: bool
    ) -> None:
        super().__init__()
        self.scale_before = nn.Parameter(torch.ones(channels, 1, 1))
        self.scale_last = nn.Parameter(torch.ones(channels, 1, 1))
        self.norm = norm
        self.updates = nn.ModuleList(updates)
        self.first_ratios, self.paired = tuple(ratios), paired
        self.ratios = nn.Parameter(torch.empty(len(ratios)))  # their sigmoids are the ratios
        self.reset_own()

    def reset_own(self) -> None:
        """Start the scales and ratios anew; updates and norm have their own start."""
        nn.init.ones_(self.scale_before)
        nn.init.ones_(self.scale_last)
        with torch.no_grad():
            self.ratios.copy_(torch.tensor(self.first_ratios))

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        ratios = self.ratios.sigmoid()
        p = self.norm(self.scale_before * before + self.scale_last * last)
        for number, update in enumerate(self.updates):
            p = p + ratios[(number + 1) // 2 if self.paired else number] * update(p)
        return p


class PolyNeXt(Classifier):
    r"""A classifier of PolyNeXt cells.

    The head multiplies once more: features are :math:`l + l * r` with :math:`(l, r) = W \mathrm{norm}(p)`.

    Args:
        stem: From the image to the first map.
        cells: In order.
        reductions: By the number of a cell: the maps that halve both of its inputs.
        norm: The normalisation of the last map.
        width: Channels of the last map.
        num_classes: Outputs; 0 for none, so that the network returns its pooled features.
        dropout: Rate of the dropout before the classifier.
    """

    def __init__(
        self,
        stem: nn.Module,
        cells: Sequence[Cell],
        reductions: dict[int, Sequence[nn.Module]],
        *,
        norm: nn.Module,
        width: int,
        num_classes: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.cells = nn.ModuleList(cells)
        self.reductions: Mapping[str, nn.ModuleList] = nn.ModuleDict(  # type: ignore[assignment]
            {str(cell): nn.ModuleList(maps) for cell, maps in reductions.items()}
        )
        self.norm = norm
        self.project = convolution(width, 2 * _OUTPUT * width, 1)
        self.product = Step(nn.Identity(), carry={"gate": nn.Identity()})
        self.dropout = nn.Dropout(dropout)
        self.num_features = _OUTPUT * width
        self.reset_classifier(num_classes)

    def reset_parameters(self) -> None:
        """Draw convolutions from N(0, 2 / fan_in) and start all else as it was made."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            elif isinstance(module, Cell):
                module.reset_own()
            elif isinstance(module, AttentionUpdate):
                module.reset_scale()
            elif isinstance(module, (ChannelNorm, PixelBatchNorm, RowSumNorm, nn.Linear)):
                module.reset_parameters()

    def forward_features(self, x: Tensor) -> Tensor:
        """The map of features, twice as wide as the last cell."""
        before = last = self.stem(x)
        for number, cell in enumerate(self.cells):
            if str(number) in self.reductions:
                maps = self.reductions[str(number)]
                before, last = maps[0](before), maps[1](last)
            before, last = last, cell(before, last)
        left, right = self.project(self.norm(last)).chunk(2, dim=1)
        return self.product(left, right)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = self.pooled(x)
        return x if pre_logits else self.fc(self.dropout(x))


def polynext(
    *,
    width: int,
    nodes: Sequence[int],
    reduce_at: Sequence[int],
    ratios: Sequence[float],
    paired: bool = False,
    conv_expansion: Sequence[float] = (1, 1, 0.75, 0.75),
    bilinear_expansion: Sequence[float] = (2, 2, 1.75, 1.75),
    full_reduction: bool = True,
    attention: bool = False,
    norm: Literal["layer", "batch"] = "layer",
    image_size: int = 224,
    stem_stride: Literal[1, 4] = 4,
    num_classes: int = 1000,
    in_channels: int = 3,
    drop_path: float = 0.0,
    dropout: float = 0.0,
) -> PolyNeXt:
    """PolyNeXt with layer norm as published, or with batch norm for each pixel, which makes it a polynomial.

    Args:
        width: Channels of the first stage; the later ones have 2, 4 and 6 times as many.
        nodes: The number of updates in each cell, an even number.
        reduce_at: The cells that halve height and width and begin a stage.
        ratios: What the learnt numbers of each cell start at, whose sigmoids scale the updates.
        paired: Whether updates share ratios in pairs, see :class:`Cell`.
        conv_expansion: For each stage, the channels of convolutional updates relative to the map's.
        bilinear_expansion: For each stage, twice the channels of bilinear products relative to the map's.
        full_reduction: Whether the last output is halved by a full 3x3 convolution instead of a separable one.
        attention: Whether attention takes the place of convolutional updates from the third stage on.
        norm: ``"layer"`` or ``"batch"``.
        image_size: Height and width of the images, which ``norm="batch"`` fixes.
        stem_stride: 4 for a 7x7 convolution with that stride, 1 for a 3x3 convolution.
        num_classes: Outputs; 0 for none.
        in_channels: Channels of the images.
        drop_path: Rate of stochastic depth in the last cell; it rises linearly from 0 in the first.
        dropout: Rate of the dropout before the classifier.

    Example:
        >>> model = polynext(width=8, nodes=(2, 2), reduce_at=(1,), ratios=(0, 0), norm="batch", image_size=32,
        ...                  stem_stride=1, num_classes=10)
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if norm not in ("layer", "batch"):
        raise ValueError(f"norm must be one of layer, batch, got {norm!r}")
    if stem_stride not in (1, 4):
        raise ValueError(f"stem_stride must be 1 or 4, got {stem_stride}")
    if any(count < 2 or count % 2 for count in nodes):
        raise ValueError(f"every cell needs an even number of at least 2 nodes, got {tuple(nodes)}")
    with torch.random.fork_rng(devices=[]):  # the weights are drawn below, in the order of the network
        make_norm: MakeNorm = PixelBatchNorm if norm == "batch" else lambda channels, _: ChannelNorm(channels)
        kernel = 7 if stem_stride == 4 else 3
        stem = convolution(in_channels, width, kernel, stem_stride)
        size = math.ceil(image_size / stem_stride)
        stage, channels = 0, width
        cells: list[Cell] = []
        reductions: dict[int, Sequence[nn.Module]] = {}
        for number, count in enumerate(nodes):
            if number in reduce_at:
                narrow, channels = channels, width * (2, 4, 6)[stage]
                last = convolution(narrow, channels, 3, 2) if full_reduction else separable_halving(narrow, channels)
                reductions[number] = (separable_halving(narrow, channels), last)
                stage, size = stage + 1, math.ceil(size / 2)
            drop = drop_path * number / max(len(nodes) - 1, 1)
            updates: list[nn.Module] = []
            for _ in range(count // 2):
                if attention and stage >= 2:
                    updates.append(
                        AttentionUpdate(channels, size, norm=make_norm, strict=norm == "batch", drop_path=drop)
                    )
                else:
                    inner = int(channels * conv_expansion[stage])
                    kernel = 3 if stage == 0 else 5
                    updates.append(
                        ConvUpdate(channels, inner, kernel=kernel, norm=make_norm(channels, size), drop_path=drop)
                    )
                inner = int(channels * bilinear_expansion[stage]) // 2
                updates.append(BilinearUpdate(channels, inner, norm=make_norm(inner, size), drop_path=drop))
            cells.append(Cell(channels, updates, norm=make_norm(channels, size), ratios=ratios, paired=paired))
        model = PolyNeXt(
            stem,
            cells,
            reductions,
            norm=make_norm(channels, size),
            width=channels,
            num_classes=num_classes,
            dropout=dropout,
        )
    model.reset_parameters()
    return model


def separable_halving(in_channels: int, out_channels: int) -> nn.Sequential:
    """Half the height and width by a depth-wise and a 1x1 convolution."""
    return nn.Sequential(depthwise(in_channels, 3, stride=2), convolution(in_channels, out_channels, 1))


# Names

_HALVES = tuple(-step / 2 for step in range(8))
_T = partial(
    polynext,
    width=48,
    nodes=(6,) * 12,
    reduce_at=(2, 4, 10),
    ratios=tuple(logit(ratio) for ratio in (0.5, 0.5, 0.25, 0.125, 0.0625, 0.03125)),
    paired=True,
    full_reduction=False,
)
_S = partial(polynext, width=72, nodes=(*(6,) * 3, *(8,) * 14), reduce_at=(3, 6, 14), ratios=_HALVES, drop_path=0.2)
_B = partial(polynext, width=84, nodes=(8,) * 21, reduce_at=(3, 8, 18), ratios=_HALVES, drop_path=0.3)
_L = partial(
    polynext, width=96, nodes=(8,) * 24, reduce_at=(3, 9, 21), ratios=[value - 0.5 for value in _HALVES], drop_path=0.5
)
_CIFAR = partial(
    polynext,
    width=72,
    nodes=(6,) * 8,
    reduce_at=(2, 5),
    ratios=(0.5, 0.5, 0.25, 0.125, 0.0625, 0.03125),
    conv_expansion=(1, 1, 1),
    bilinear_expansion=(2, 2, 2),
    full_reduction=False,
    image_size=32,
    stem_stride=1,
    num_classes=10,
)
# small ratios, since a fresh network without running statistics grows fast
_TOY = {
    "width": 8,
    "nodes": (2, 2),
    "reduce_at": (0, 1),
    "ratios": (-12.0, -12.0),
    "full_reduction": False,
    "drop_path": 0.0,
    "image_size": 64,
}


def _register(name: str, build: Callable[..., nn.Module], what: str, side: int, toy: Mapping[str, Any]) -> None:
    register(name, build, input_shape=(3, side, side), toy=toy, summary=f"{what} with layer norm as published")
    strict = partial(build, norm="batch")
    summary = f"{what} with batch norm: a polynomial of the image, certified"
    register(f"{name}_bn", strict, input_shape=(3, side, side), toy=toy, summary=summary)


for _size, _build in {"t": _T, "s": _S, "b": _B, "l": _L}.items():
    _register(f"polynext_{_size}", _build, f"PolyNeXt-{_size.upper()}, convolutional,", 224, _TOY)
for _size, _build in {"t": _T, "s": _S}.items():
    _attending = partial(_build, attention=True)
    _register(f"apolynext_{_size}", _attending, f"PolyNeXt-{_size.upper()} with attention,", 224, _TOY)
_register("polynext_cifar", _CIFAR, "PolyNeXt for images of 32x32,", 32, {**_TOY, "image_size": 32})
