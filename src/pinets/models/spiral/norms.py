"""Normalisations of features on vertices, (..., V, features), for the products of spiral layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pinets._eager import differentiate_again, only_autograd_watches
from pinets.models.parts import LastAxisBatchNorm

__all__ = ["NORMS", "MakeNorm", "VertexBatchNorm", "VertexInstanceNorm"]

_EPS = 1e-5
MakeNorm = Callable[..., nn.Module]  # called as (vertices, features, device=..., dtype=...)


class VertexInstanceNorm(nn.Module):
    r"""Instance norm over the vertices: each feature of each sample gets mean 0 and deviation 1, then a scale.

    .. math:: y_{v} = \gamma * \frac{x_{v} - \mathrm{mean}_v\, x}{\sqrt{\mathrm{var}_v\, x + \epsilon}} + \beta

    Args:
        features: Of a vertex.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> y = VertexInstanceNorm(4)(5 + 3 * torch.randn(2, 100, 4))
        >>> torch.allclose(y.mean(1), torch.zeros(2, 4), atol=1e-5)
        True
    """

    def __init__(
        self, features: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(features, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad and only_autograd_watches(x, self.weight, self.bias):
            return _InstanceNorm.apply(x, self.weight, self.bias)
        return _instance_norm(x, self.weight, self.bias)[0]


def _instance_norm(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(-2, keepdim=True)
    inverse = torch.rsqrt((x - mean).square().mean(-2, keepdim=True) + _EPS)
    scale = inverse * weight
    return torch.addcmul(bias - mean * scale, x, scale), mean, inverse


class _InstanceNorm(torch.autograd.Function):
    """With a backward pass that goes over the vertices a few times, where autograd would go twenty times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out, mean, inverse = _instance_norm(x, weight, bias)
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            out = _instance_norm(x, weight, bias)[0]
            return differentiate_again(out, (x, weight, bias), gradient, ctx.needs_input_grad)
        vertices = x.shape[-2]
        total = gradient.sum(-2, keepdim=True)
        along = ((gradient * x).sum(-2, keepdim=True) - mean * total) * inverse  # with the standardised values
        # gradient * scale, minus its mean, minus what changes the deviation: linear in the gradient and in x
        scale = inverse * weight
        slope = -scale * inverse * along / vertices
        shift = -scale * total / vertices - slope * mean
        to_x = torch.addcmul(shift, gradient, scale).addcmul_(x, slope)
        others = tuple(range(x.ndim - 1))
        return to_x, along.sum(others), total.sum(others)


class VertexBatchNorm(nn.BatchNorm1d):
    """Batch norm with statistics and parameters of their own for each feature of each vertex; affine at inference.

    Example:
        >>> VertexBatchNorm(10 * 4)(torch.randn(2, 10, 4)).shape
        torch.Size([2, 10, 4])
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(-2)).view_as(x)


def _instance(vertices: int, features: int, **where: object) -> nn.Module:
    return _silent(VertexInstanceNorm(features, **where))  # type: ignore[arg-type]


def _batch(vertices: int, features: int, **where: object) -> nn.Module:
    return _silent(LastAxisBatchNorm(features, **where))  # type: ignore[arg-type]


def _vertex(vertices: int, features: int, **where: object) -> nn.Module:
    return _silent(VertexBatchNorm(vertices * features, **where))  # type: ignore[arg-type]


def _silent(norm: VertexInstanceNorm | nn.BatchNorm1d) -> nn.Module:
    """With a scale of zero: a fresh network is the one without products, and grows them."""
    nn.init.zeros_(norm.weight)
    return norm


def _none(vertices: int, features: int, **where: object) -> nn.Module:
    return nn.Identity()


# "instance" as the paper says; "vertex" as published code does; "batch" and "none" are polynomials at inference
NORMS: dict[str, MakeNorm] = {"instance": _instance, "batch": _batch, "vertex": _vertex, "none": _none}
