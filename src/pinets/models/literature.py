r"""Blocks of published networks without activations, with the norms they were published with.

With a shortcut s and a residual branch r, R-PolyNets compute :math:`s + r + \alpha\,\mathrm{BN}(W(s * r))` with partly
instance norm in r, and PDC :math:`s + r + \alpha\,\mathrm{BN}(W(U_1 s * U_2 s))`. D-PolyNets multiply a product p by an
earlier one, q, once more: :math:`p + \theta\,(q * p)` with :math:`\theta` from 0. A quadratic layer is
:math:`(A x) * (B x) + C x`, a bilinear one :math:`W((A x) * (B x))`. Each is one choice of the four slots of a step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets.models.residual import Scale, convolution
from pinets.polynomial import Step

__all__ = ["BilinearLayer", "DPolyBlocks", "InstanceBatchNorm", "PDCBlock", "QuadraticLayer", "RPolyBlock"]


class InstanceBatchNorm(nn.Module):
    """Instance norm for 80 % of the channels, batch norm for the others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        first = round(0.8 * channels)
        self.instance = nn.InstanceNorm2d(first, affine=True)
        self.batch = nn.BatchNorm2d(channels - first)

    def forward(self, x: Tensor) -> Tensor:
        first, rest = x.split([self.instance.num_features, self.batch.num_features], dim=1)
        return torch.cat([self.instance(first), self.batch(rest)], dim=1)


class RPolyBlock(nn.Module):
    """A block of R-PolyNets; ``norm`` follows the first convolution, as published :class:`InstanceBatchNorm`."""

    def __init__(self, channels: int, norm: type[nn.Module] = InstanceBatchNorm) -> None:
        super().__init__()
        self.step = Step(
            gate=nn.Identity(),
            body=_branch(channels, norm),
            norm=_scaled(channels, 1),
            carry={"gate": nn.Identity(), "body": nn.Identity()},
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x, x)


class DPolyBlocks(nn.Module):
    """Two blocks of D-PolyNets, with norms as in :class:`RPolyBlock`: the second takes up the product of the first."""

    def __init__(self, channels: int, norm: type[nn.Module] = InstanceBatchNorm) -> None:
        super().__init__()
        self.branches = nn.ModuleList(_branch(channels, norm) for _ in range(2))
        self.products = nn.ModuleList(Step(gate=nn.Identity()) for _ in range(2))
        self.reuse = Step(gate=nn.BatchNorm2d(channels), norm=Scale(), carry={"state": nn.Identity()})
        self.tails = nn.ModuleList(nn.Sequential(_conv(channels, 1), nn.BatchNorm2d(channels)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        r = self.branches[0](x)
        earlier = self.products[0](x, r)
        x = x + r + self.tails[0](earlier)
        r = self.branches[1](x)
        return x + r + self.tails[1](self.reuse(earlier, self.products[1](x, r)))


class PDCBlock(nn.Module):
    """A block of PDC: the product of two convolutions of the shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = _branch(channels, InstanceBatchNorm)
        self.step = Step(gate=_conv(channels, 3), body=_conv(channels, 3), norm=_scaled(channels, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) + self.step(x, x)


class QuadraticLayer(nn.Module):
    """A layer of quadratic neurons."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        gate, body, skip = (nn.Linear(in_features, out_features) for _ in range(3))
        self.step = Step(gate=gate, body=body, carry={"state": skip})

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x, x)


class BilinearLayer(nn.Module):
    """A gated layer without its activation, as in a bilinear MLP; ``hidden`` is the size of the product."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.step = Step(gate=nn.Linear(features, hidden, bias=False), body=nn.Linear(features, hidden, bias=False))
        self.head = nn.Linear(hidden, features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.step(x, x))


def _conv(channels: int, kernel: int) -> nn.Conv2d:
    return convolution(channels, channels, kernel)


def _branch(channels: int, norm: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(_conv(channels, 3), norm(channels), _conv(channels, 3), nn.BatchNorm2d(channels))


def _scaled(channels: int, kernel: int) -> nn.Sequential:
    """The layers applied to a product; its scale starts at 0."""
    return nn.Sequential(_conv(channels, kernel), nn.BatchNorm2d(channels), Scale())
