"""Instance norm for images with the channels first or last in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pinets._eager import differentiate_again, may_overwrite, only_autograd_watches

__all__ = ["InstanceNorm"]


class InstanceNorm(nn.Module):
    """Instance norm without parameters, as ``nn.InstanceNorm2d``, and several times as fast on CPU.

    Args:
        inplace: Whether the input may be overwritten where no gradient asks for it.

    Example:
        >>> x = torch.randn(2, 3, 4, 4)
        >>> torch.allclose(InstanceNorm()(x), nn.InstanceNorm2d(3)(x), atol=1e-5)
        True
    """

    eps = 1e-5

    def __init__(self, *, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def forward(self, x: Tensor) -> Tensor:
        if x.is_contiguous():
            return torch.group_norm(x, x.shape[1], eps=self.eps)  # as many groups as channels is the same
        if x.dtype in (torch.float16, torch.bfloat16):  # whose squares overflow, or whose means are coarse
            return self(x.float()).to(x.dtype)
        if x.requires_grad and only_autograd_watches(x):
            return _InstanceNorm.apply(x, self.eps)
        return _standardise(x, self.eps, overwrite=self.inplace and may_overwrite(x))[0]


class _InstanceNorm(torch.autograd.Function):
    """A backward pass of a few operations in place, where autograd would make three times as many."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        out, mean, inverse = _standardise(x, eps)
        ctx.save_for_backward(x, mean, inverse)
        ctx.eps = eps
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        x, mean, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            (again,) = differentiate_again(_standardise(x, ctx.eps)[0], (x,), gradient, (True,))
            return again, None
        standard = (x - mean).mul_(inverse)
        along = (gradient * standard).mean((2, 3), keepdim=True)
        return standard.mul_(-along).add_(gradient).sub_(gradient.mean((2, 3), keepdim=True)).mul_(inverse), None


def _standardise(x: Tensor, eps: float, overwrite: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean((2, 3), keepdim=True)
    centred = x.sub_(mean) if overwrite else x - mean
    inverse = torch.rsqrt(centred.square().mean((2, 3), keepdim=True) + eps)
    out = centred * inverse if torch.is_grad_enabled() else centred.mul_(inverse)
    return out, mean, inverse
