"""The hyperbolic tangent, faster on CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pinets._eager import may_overwrite, only_autograd_watches

__all__ = ["Tanh"]

# tanh(x) = x P(x^2) / Q(x^2), lowest coefficients first: fitted to a relative error of 2.1e-8 for |x| up to 9, where
# the tangent is 1 in single precision
_LIMIT = 9.0
_P = (0.999999979, 0.133810258, 0.00349558831, 2.06090831e-05, 1.33546583e-08)
_Q = (1.0, 0.467143414, 0.0258769831, 0.000328563502, 7.77655789e-07)
_MINUS_ONE = torch.tensor(-1.0, dtype=torch.float32, device="cpu")  # a tensor, so that one pass scales and shifts


class Tanh(nn.Tanh):
    """As ``nn.Tanh``, to 5e-7; on CPU in single precision in half the time or less.

    Args:
        inplace: Whether the input may be overwritten where no gradient asks for it, as that of a product nobody else
            has.

    Example:
        >>> Tanh()(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """

    def __init__(self, *, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def forward(self, input: Tensor) -> Tensor:
        if input.device.type != "cpu" or input.dtype != torch.float32:
            return torch.tanh(input)
        compiled = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
        if not compiled and not only_autograd_watches(input):
            return torch.tanh(input)
        if torch.is_grad_enabled():
            return _Tanh.apply(input)
        return _tanh(input, into=input if self.inplace and may_overwrite(input) else None)

    @staticmethod
    def pull_back_(x: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of ``x`` from that of the output, in place of ``x``."""
        out = _tanh(x, into=x) if x.is_cpu and x.dtype == torch.float32 else x.tanh_()
        return torch.ops.aten.tanh_backward.grad_input(gradient, out, grad_input=out)


class _Tanh(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return _tanh(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, out)


def _tanh(x: Tensor, into: Tensor | None = None) -> Tensor:
    """By a fraction where all its operations become one, otherwise as 2 sigmoid(2 x) - 1."""
    if torch.compiler.is_compiling():
        bounded = x.clamp(-_LIMIT, _LIMIT)
        square = bounded * bounded
        return bounded * _polynomial(_P, square) / _polynomial(_Q, square)
    out = torch.mul(x, 2, out=into).sigmoid_()
    return torch.add(_MINUS_ONE, out, alpha=2, out=out)


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    out = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        out = out * x + coefficient
    return out
