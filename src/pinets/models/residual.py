r"""Residual blocks, and the joins that put a block's shortcut :math:`s` and branch :math:`r` together.

A baseline adds them. A Π-net also multiplies them, by one :class:`pinets.polynomial.Step`; its ``norm`` slot is what
the residual Π-nets differ in. The blocks have the attribute names of torchvision, so that its weights load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from pinets.models.parts import Activation, SilentBatchNorm, choose
from pinets.polynomial import Step

__all__ = [
    "Add",
    "BasicBlock",
    "Bottleneck",
    "Join",
    "JoinMaker",
    "Multiply",
    "ProductNorm",
    "ResidualBlock",
    "Scale",
    "Site",
    "Where",
    "add",
    "convolution",
    "local_layers",
    "local_product",
    "mixed_tanh_product",
    "normalised_product",
    "scaled_product",
    "tanh_product",
]


class Join(nn.Module):
    """Base of all joins: ``join(shortcut, branch)``, with ``activation`` applied to the result."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, shortcut: Tensor, branch: Tensor) -> Tensor:
        raise NotImplementedError


class Add(Join):
    r"""The baseline's join: :math:`\mathrm{activation}(s + r)`."""

    def forward(self, shortcut: Tensor, branch: Tensor) -> Tensor:
        return self.activation(branch + shortcut)


class Multiply(Join):
    r"""The second-order join of Π-nets: one :class:`pinets.polynomial.Step` from :math:`z = s` and :math:`x = r`.

    .. math:: \mathrm{activation}(\mathrm{norm}(s * r) + s + r)

    This is NCP-Skip with :math:`V = I + S`, where :math:`S` is the branch, evaluated once.

    Args:
        norm: Applied to the product. If it starts as zero, the block starts as the baseline's.
        activation: Applied to the sum.

    Example:
        >>> join = Multiply(nn.Identity(), nn.Identity())
        >>> join(torch.tensor([2.0]), torch.tensor([3.0]))  # 2 * 3 + 2 + 3
        tensor([11.])
    """

    def __init__(self, norm: nn.Module, activation: nn.Module) -> None:
        super().__init__(activation)
        self.step = Step(nn.Identity(), norm=norm, carry={"gate": nn.Identity(), "body": nn.Identity()})

    def forward(self, shortcut: Tensor, branch: Tensor) -> Tensor:
        return self.activation(self.step(shortcut, branch))


class ProductNorm(nn.Sequential):
    """Layers applied to a product, which saturates in half precision instead of overflowing.

    A product of two fp16 numbers overflows from 256 * 256 on. Infinity times a scale of zero is NaN, so a Π-net that
    starts as its baseline would not.

    Example:
        >>> ProductNorm(Scale()).half()(torch.tensor([float("inf")], dtype=torch.float16)).detach()
        tensor([0.], dtype=torch.float16)
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(_saturated(input))


class Scale(nn.Module):
    r"""Multiply by one learnt number: :math:`\alpha x`, with :math:`\alpha = 0` at first.

    A scaled product is absent at first and grows where it helps: its gradient with respect to :math:`\alpha` is not
    zero. While :math:`\alpha` is 0 the result is exactly 0, also where an fp16 product has overflowed; an
    infinite product of another type gives NaN.
    """

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.alpha)

    def forward(self, x: Tensor) -> Tensor:
        return self.alpha * _saturated(x)


def _saturated(x: Tensor) -> Tensor:
    """fp16 values with NaN replaced by 0 and infinities by the largest number.

    Other types are left as they are, so that the network stays a polynomial: their products overflow from numbers of
    about 1e19 on.
    """
    return x.nan_to_num() if x.dtype == torch.float16 else x


@dataclass(frozen=True)
class Site:
    """The place of a join in a network.

    Attributes:
        channels: Channels of the shortcut and the branch.
        identity: Whether the shortcut is the identity; otherwise it is a 1x1 convolution.
        activation: Makes the activation after the join; ``nn.Identity`` for none.
    """

    channels: int
    identity: bool
    activation: Activation


JoinMaker = Callable[[Site], Join]


def add(site: Site) -> Add:
    """The baseline's join."""
    return Add(site.activation())


def tanh_product(site: Site) -> Multiply:
    r"""Join by :math:`\tanh(s * r) + s + r`: the bound on the second order stabilises training on ImageNet."""
    return Multiply(nn.Tanh(), site.activation())


def mixed_tanh_product(site: Site) -> Multiply:
    r"""Join by :math:`\mathrm{BN}(W \tanh(s * r)) + s + r`, with :math:`W` a 1x1 convolution and BN's scale from 0."""
    mix = convolution(site.channels, site.channels, 1)
    return Multiply(nn.Sequential(nn.Tanh(), mix, SilentBatchNorm(site.channels)), site.activation())


def scaled_product(site: Site, *, layers: Callable[[Site], list[nn.Module]]) -> Multiply:
    r"""Join by :math:`\alpha\,\mathrm{layers}(s * r) + s + r`, with :math:`\alpha` from 0.

    Args:
        site: The place of the join.
        layers: Makes the layers of the product for that place.
    """
    return Multiply(ProductNorm(*layers(site), Scale()), site.activation())


Where = Literal["everywhere", "identity", "projection"]
_SITES: dict[str, Callable[[Site], bool]] = {
    "everywhere": lambda site: True,
    "identity": lambda site: site.identity,
    "projection": lambda site: not site.identity,
}


def local_product(site: Site, *, convs: int, where: Where = "everywhere") -> Multiply:
    r"""Join by :math:`\alpha\,L(\cdots L(s * r)) + s + r`, as Prodpoly-ResNet on CIFAR and speech.

    Args:
        site: The place of the join.
        convs: The number of :math:`L` (see :func:`local_layers`).
        where: The blocks that have them: all, or those whose shortcut is the identity or a projection.
    """
    if isinstance(convs, bool) or not isinstance(convs, int) or convs < 0:
        raise ValueError(f"local_convs must be a whole number of at least 0, got {convs!r}")
    here = choose(where, _SITES, "local_where")(site)
    return scaled_product(site, layers=partial(local_layers, convs=convs if here else 0))


def local_layers(site: Site, convs: int) -> list[nn.Module]:
    r"""``convs`` times :math:`L`: a 1x1 convolution without bias, an instance norm and a leaky ReLU."""
    layers: list[nn.Module] = []
    for _ in range(convs):
        mix = convolution(site.channels, site.channels, 1)
        layers += [mix, nn.InstanceNorm2d(site.channels), nn.LeakyReLU(0.01, inplace=True)]
    return layers


def normalised_product(site: Site, *, conv: bool) -> Multiply:
    r"""Join by :math:`\mathrm{BN}(s * r) + s + r` or :math:`\mathrm{BN}(W (s * r)) + s + r`, as PiNet.

    The scale of the batch norm starts at 0. Starting the branch at 0 instead, a usual trick with ResNets, would make
    the product vanish, and the batch norm divide by the square root of its epsilon.

    Args:
        site: The place of the join.
        conv: Whether there is :math:`W`, a 1x1 convolution.
    """
    mix = [convolution(site.channels, site.channels, 1)] if conv else []
    return Multiply(ProductNorm(*mix, SilentBatchNorm(site.channels)), site.activation())


class ResidualBlock(nn.Module):
    """A shortcut and a branch, put together by a join.

    Args:
        in_channels: Channels of the input.
        channels: Channels inside; the output has ``channels * expansion``.
        stride: Factor by which the block reduces height and width.
        join: Makes the join for its place.
        activation: Makes the activations; ``nn.Identity`` for none.
    """

    expansion = 1
    conv1: nn.Conv2d

    def __init__(
        self, in_channels: int, channels: int, *, stride: int, join: JoinMaker, activation: Activation
    ) -> None:
        super().__init__()
        self.out_channels = channels * self.expansion
        identity = stride == 1 and in_channels == self.out_channels
        self.add_branch(in_channels, channels, stride)
        self.relu = activation()  # torchvision's name, for any activation
        self.downsample: nn.Sequential | None = None
        if not identity:
            project = convolution(in_channels, self.out_channels, 1, stride)
            self.downsample = nn.Sequential(project, nn.BatchNorm2d(self.out_channels))
        self.join = join(Site(self.out_channels, identity, activation))

    def add_branch(self, in_channels: int, channels: int, stride: int) -> None:
        """Register the layers of the branch."""
        raise NotImplementedError

    def shortcut(self, x: Tensor) -> Tensor:
        return x if self.downsample is None else self.downsample(x)


class BasicBlock(ResidualBlock):
    """Two 3x3 convolutions; the arguments are those of :class:`ResidualBlock`."""

    def add_branch(self, in_channels: int, channels: int, stride: int) -> None:
        self.conv1 = convolution(in_channels, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = convolution(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.join(self.shortcut(x), self.bn2(self.conv2(out)))


class Bottleneck(ResidualBlock):
    """A 1x1 convolution to fewer channels, a 3x3 with the stride, a 1x1 back; arguments as :class:`ResidualBlock`."""

    expansion = 4

    def add_branch(self, in_channels: int, channels: int, stride: int) -> None:
        self.conv1 = convolution(in_channels, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = convolution(channels, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = convolution(channels, channels * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.join(self.shortcut(x), self.bn3(self.conv3(out)))


def convolution(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps height and width, apart from the stride."""
    return nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
