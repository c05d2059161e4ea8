"""The layers of PolyNeXt: its normalisations and the updates of its cells."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets.models.residual import convolution
from pinets.polynomial import Step

__all__ = [
    "AttentionUpdate",
    "BilinearUpdate",
    "ChannelNorm",
    "ConvUpdate",
    "MakeNorm",
    "PixelBatchNorm",
    "RowSumNorm",
    "depthwise",
    "logit",
]

MakeNorm = Callable[[int, int], nn.Module]  # from the channels and the side of a map
_HEAD = 32  # features of an attention head


# Normalisations


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each pixel, with a scale and no shift: not a polynomial."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.movedim(1, -1), self.weight.shape, self.weight).movedim(-1, 1)


class PixelBatchNorm(nn.Module):
    """Batch norm with one mean and variance for each pixel, over samples and channels: affine at inference.

    Args:
        channels: Channels of the map; each has a learnt scale.
        size: Height and width of the map; each pixel has a learnt scale.

    Example:
        >>> norm = PixelBatchNorm(8, 4)
        >>> out = norm(torch.randn(16, 8, 4, 4) * 3 + 1)
        >>> out.mean().abs().item() < 1e-5, round(out.std().item(), 2)
        (True, 1.0)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, size: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.pixel_weight = nn.Parameter(torch.ones(size, size))
        self.register_buffer("running_mean", torch.zeros(size, size))
        self.register_buffer("running_var", torch.ones(size, size))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.ones_(self.pixel_weight)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2:] != self.pixel_weight.shape:
            size, found = ("x".join(map(str, shape)) for shape in (self.pixel_weight.shape, x.shape[-2:]))
            raise ValueError(f"the norm is for maps of {size} pixels, got {found}: image_size must be the images' own")
        mean, variance = self.running_mean, self.running_var
        if self.training:
            variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum)
        return (x - mean) * ((variance + self.eps).rsqrt() * self.pixel_weight) * self.weight


class RowSumNorm(nn.Module):
    """Divide the rows of attention by the running mean of their sums: linear at inference.

    Args:
        heads: Heads of the attention.
        tokens: Rows of each.
    """

    running_sum: Tensor

    eps, momentum = 1e-6, 0.1

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, tokens, 1))
        self.register_buffer("running_sum", torch.ones(heads, tokens, 1))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        self.running_sum.fill_(1)

    def forward(self, attention: Tensor) -> Tensor:
        total = self.running_sum
        if self.training:
            total = attention.sum(dim=-1, keepdim=True).mean(dim=0)
            with torch.no_grad():
                self.running_sum.lerp_(total.to(self.running_sum.dtype), self.momentum)
        return attention / (total + self.eps) * self.weight


class RowSum(nn.Module):
    """Divide each row of attention by its own sum, as published: not a polynomial."""

    def forward(self, attention: Tensor) -> Tensor:
        return attention / attention.sum(dim=-1, keepdim=True)


# The updates of a cell


class FlipChannels(nn.Module):
    """Reverse the channels, so that the product pairs each with another."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1)


class DropPath(nn.Module):
    """Leave an update out for a random part of the samples while training.

    Args:
        rate: The fraction of samples.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.rate
        return x * (kept / (1 - self.rate)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class ConvUpdate(nn.Module):
    r""":math:`\mathrm{norm}(W (A b * \mathrm{flip}(B b)))` with :math:`b = P p`.

    Args:
        channels: Channels of the map.
        inner: Channels of the product.
        kernel: Side of :math:`A`, whose pixels are two apart.
        norm: The normalisation of the result.
        drop_path: Rate of :class:`DropPath`.
    """

    def __init__(self, channels: int, inner: int, *, kernel: int, norm: nn.Module, drop_path: float) -> None:
        super().__init__()
        self.expand = convolution(channels, inner, 1)  # P
        self.product = Step(
            gate=depthwise(inner, kernel, dilation=2),
            body=nn.Sequential(depthwise(inner, 3), FlipChannels()),
            norm=nn.Sequential(depthwise(inner, 3), convolution(inner, channels, 1), norm, DropPath(drop_path)),
        )

    def forward(self, p: Tensor) -> Tensor:
        b = self.expand(p)
        return self.product(b, b)


class BilinearUpdate(nn.Module):
    r""":math:`W \mathrm{norm}(h * l)` with :math:`(h, l) = P p`.

    Args:
        channels: Channels of the map.
        inner: Channels of the product.
        norm: The normalisation of the product.
        drop_path: Rate of :class:`DropPath`.
    """

    def __init__(self, channels: int, inner: int, *, norm: nn.Module, drop_path: float) -> None:
        super().__init__()
        self.expand = convolution(channels, 2 * inner, 1)  # P
        last = nn.Sequential(norm, convolution(inner, channels, 1), DropPath(drop_path))
        self.product = Step(nn.Identity(), norm=last)

    def forward(self, p: Tensor) -> Tensor:
        high, low = self.expand(p).chunk(2, dim=1)
        return self.product(high, low)


class AttentionUpdate(nn.Module):
    r"""Attention whose weights are a polynomial: :math:`(s\,q k^T + 1)^4`, divided by the sums of their rows.

    Args:
        channels: Channels of the map; half as many take part.
        size: Height and width of the map.
        norm: Makes the normalisations of maps.
        strict: Whether rows are divided by running means of their sums, and the result is normalised.
        drop_path: Rate of :class:`DropPath`.
    """

    def __init__(self, channels: int, size: int, *, norm: MakeNorm, strict: bool, drop_path: float) -> None:
        super().__init__()
        self.heads = math.ceil(channels / (2 * _HEAD))
        inner = self.heads * _HEAD
        self.norm = norm(channels, size)
        self.expand = convolution(channels, 2 * inner, 1)
        self.query, self.key, self.value = depthwise(inner, 5), depthwise(inner, 5), depthwise(inner, 3)
        self.scale = nn.Parameter(torch.empty(self.heads, 1, 1))  # s is its sigmoid
        self.rows = RowSumNorm(self.heads, size * size) if strict else RowSum()
        mix = [depthwise(inner, 3), *([norm(inner, size)] if strict else []), convolution(inner, channels, 1)]
        self.mix = nn.Sequential(*mix, DropPath(drop_path))
        self.reset_scale()

    def reset_scale(self) -> None:
        """Start at the usual scale of attention, one by the square root of the features of a head."""
        nn.init.constant_(self.scale, logit(_HEAD**-0.5))

    def forward(self, p: Tensor) -> Tensor:
        mixed, values = self.expand(self.norm(p)).chunk(2, dim=1)
        query, key, value = (self.tokens(x) for x in (self.query(mixed), self.key(mixed), self.value(values)))
        attention = self.rows((query @ key.transpose(-2, -1) * self.scale.sigmoid() + 1) ** 4)
        return self.mix((attention @ value).transpose(-2, -1).reshape(mixed.shape))

    def tokens(self, x: Tensor) -> Tensor:
        """From a map (N, heads * 32, H, W) to one row for each pixel, (N, heads, H * W, 32)."""
        return x.flatten(2).unflatten(1, (self.heads, _HEAD)).transpose(-2, -1)


# Convolutions


def depthwise(channels: int, kernel: int, *, stride: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A convolution of each channel by itself, without bias, that keeps height and width apart from the stride."""
    padding = dilation * (kernel // 2)
    return nn.Conv2d(
        channels, channels, kernel, stride=stride, padding=padding, dilation=dilation, groups=channels, bias=False
    )


def logit(probability: float) -> float:
    """The number whose sigmoid is the probability."""
    return math.log(probability / (1 - probability))
