r"""MONet: second-order layers without activations, and no convolutions beyond the patches.

A layer is :math:`C [u + \alpha\, u * v]` with :math:`u = \mathrm{norm}(A x)`, :math:`v = \mathrm{norm}(D B x)` and
:math:`B` of an eighth of the rank. A block is two layers, each on normalised input and added to it. The first layer
shifts its channels by a pixel, which mixes neighbouring pixels. The published norm is layer norm, which is not a
polynomial; with batch norm the network is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.models.parts import Classifier, LastAxisBatchNorm, choose
from pinets.models.registry import register
from pinets.models.residual import Scale
from pinets.operators import SpatialShift
from pinets.polynomial import Polynomial, Step

__all__ = ["MONet", "MultilinearLayer", "monet"]

Norm = Callable[[int], nn.Module]
NORMS: dict[str, Norm] = {"layer": partial(nn.LayerNorm, eps=1e-6), "batch": LastAxisBatchNorm}


class MultilinearLayer(Polynomial):
    r"""One second-order layer: :math:`C [u + \alpha\, u * v]`, channels last.

    Args:
        features: Channels in and out.
        hidden: Channels of the product.
        mix: Makes the layer that mixes pixels, between the linear maps; ``nn.Identity`` for none.
        norm: Makes a normalisation from its number of channels.
    """

    def __init__(self, features: int, hidden: int, *, mix: Callable[[], nn.Module], norm: Norm) -> None:
        rank = max(1, hidden // 8)
        gate = nn.Sequential(nn.Linear(features, hidden), mix(), norm(hidden))  # A
        body = nn.Sequential(nn.Linear(features, rank), mix(), nn.Linear(rank, hidden), norm(hidden))  # B, D
        super().__init__(
            start=nn.Identity(),
            steps=[Step(gate, body, norm=Scale(), carry={"gate": nn.Identity()})],
            head=nn.Linear(hidden, features),  # C
        )


class MultilinearBlock(nn.Module):
    """Two layers, the first over neighbouring pixels, the second over more channels, each added to its input.

    Args:
        features: Channels in and out.
        expansion: Channels of the second layer's product, relative to ``features``.
        norm: Makes a normalisation from its number of channels.
        share_norm: Whether both layers have the same normalisation before them, as published.
    """

    def __init__(self, features: int, expansion: int, *, norm: Norm, share_norm: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm(features) for _ in range(1 if share_norm else 2))
        self.pixels = MultilinearLayer(features, features, mix=SpatialShift, norm=norm)
        self.channels = MultilinearLayer(features, features * expansion, mix=nn.Identity, norm=norm)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pixels(self.norms[0](x))
        return x + self.channels(self.norms[-1](x))


class MONet(Classifier):
    """A pyramid of multilinear blocks over 4x4 patches: with layer norm as published, with batch norm a polynomial.

    Args:
        depths: Number of blocks in each stage; from the second on, each stage halves height and width.
        widths: Channels of each stage.
        num_classes: Number of outputs; with 0 the network returns its pooled features.
        in_channels: Channels of the images.
        expansion: Channels of the product in the second layer of each block, relative to the block's.
        norm: ``"layer"`` or ``"batch"``.

    Example:
        >>> import torch
        >>> model = MONet(depths=(1, 1), widths=(8, 16), num_classes=10, norm="batch")
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        *,
        depths: Sequence[int],
        widths: Sequence[int],
        num_classes: int = 1000,
        in_channels: int = 3,
        expansion: int = 3,
        norm: Literal["layer", "batch"] = "layer",
    ) -> None:
        super().__init__()
        if len(depths) != len(widths) or not depths:
            raise ValueError(f"depths and widths must have one entry per stage, got {depths!r} and {widths!r}")
        for value in (*depths, *widths):
            check_at_least_one("every one of depths and widths", value)
        check_at_least_one("in_channels", in_channels)
        self.num_features = widths[-1]
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, widths[0], 2, stride=2),
            nn.Conv2d(widths[0], widths[0], 2, stride=2),
        )
        block = partial(
            MultilinearBlock,
            expansion=expansion,
            norm=choose(norm, NORMS, "norm"),
            share_norm=norm == "layer",  # as published; batch statistics of different inputs cannot be shared
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(block(width) for _ in range(depth))) for depth, width in zip(depths, widths, strict=True)
        )
        self.downsamples = nn.ModuleList(
            nn.Conv2d(here, there, 3, stride=2, padding=1) for here, there in pairwise(widths)
        )
        super().reset_classifier(num_classes)
        self.apply(draw_unit_variance)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.apply(draw_unit_variance)

    def reset_classifier(self, num_classes: int) -> None:
        super().reset_classifier(num_classes)
        draw_unit_variance(self.fc)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for number, stage in enumerate(self.stages):
            if number > 0:
                x = self.downsamples[number - 1](x)
            x = stage(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # linear maps act on the last axis
        return x


def draw_unit_variance(module: nn.Module) -> None:
    """Draw the weight of a linear map so that it keeps the variance of its input; set its bias to 0."""
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


monet = MONet

_MONET = partial(register, build=MONet, input_shape=(3, 224, 224), toy={"depths": (1, 1), "widths": (8, 16)})
_T = partial(_MONET, depths=(4, 8, 12, 10), widths=(64, 128, 192, 192))
_S = partial(_MONET, depths=(4, 6, 12, 14), widths=(128, 192, 256, 384))

_T("monet_t", summary="MONet-T, without activations, with layer norm as published")
_S("monet_s", summary="MONet-S, without activations, with layer norm as published")
_T("monet_t_bn", norm="batch", summary="MONet-T with batch norm: a polynomial of the image, certified")
_S("monet_s_bn", norm="batch", summary="MONet-S with batch norm: a polynomial of the image, certified")
