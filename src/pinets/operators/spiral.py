"""Spiral convolution: a linear map of the features along each vertex's spiral, the same for all vertices."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._eager import differentiate_again, only_autograd_watches
from pinets.operators.bags import Bags, transposed_bags

__all__ = ["SpiralConv"]

_BLOCK = 2**20  # numbers that are gathered at once: 4 MB stay in the cache, and fewer calls than one for each sample


class SpiralConv(nn.Module):
    r"""A linear map of the features along each vertex's spiral.

    .. math:: y_v = b + \sum_{l=1}^{L} W_l \, x_{s(v, l)}

    Vertices come before features: the input is (..., V, in_features). ``weight`` is (out_features, L * in_features):
    the columns of :math:`W_1` first, those for the vertex itself. It is an ``op`` of the core: ``partial(SpiralConv,
    spirals=spirals)`` makes operators for :class:`~pinets.NCP` and all others.

    On CPU a few samples at a time are gathered, multiplied while they are in the cache, and forgotten; the backward
    pass gathers them again. That is faster than to gather all at once, and needs less memory.

    Args:
        in_features: Features of a vertex.
        out_features: Features of a vertex afterwards.
        spirals: int64, (V, L): for each vertex itself and L - 1 others; V stands for none, and counts as zeros.
        bias: Whether to add :math:`b`.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> spirals = torch.tensor([[0, 1], [1, 2], [2, 3]])  # each vertex and the next; the last has none
        >>> conv = SpiralConv(1, 1, spirals, bias=False)
        >>> _ = nn.init.ones_(conv.weight)
        >>> conv(torch.tensor([[[1.0], [10.0], [100.0]]])).detach().flatten()
        tensor([ 11., 110., 100.])
    """

    spirals: Tensor
    _positions: Tensor
    _starts: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        spirals: Tensor,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _require_spirals(spirals)
        self.in_features, self.out_features = in_features, out_features
        vertices, length = spirals.shape
        self.weight = nn.Parameter(torch.empty(out_features, length * in_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        positions, starts = transposed_bags(spirals.flatten(), vertices)
        # what the template decides is not learnt, and not in the state
        self.register_buffer("spirals", spirals.to(device=device), persistent=False)
        self.register_buffer("_positions", positions.to(device=device), persistent=False)
        self.register_buffer("_starts", starts.to(device=device), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As ``nn.Linear`` does."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        vertices = len(self.spirals)
        if x.ndim < 2 or x.shape[-2:] != (vertices, self.in_features):
            raise ValueError(
                f"SpiralConv expects {vertices} vertices of {self.in_features} features, got shape {tuple(x.shape)}"
            )
        if _can_go_by_block(x, self.weight):
            back = Bags(self._positions, self._starts)
            return _ByBlock.apply(x, self.weight, self.bias, self.spirals.flatten(), back)
        return _all_at_once(x, self.weight, self.bias, self.spirals.flatten())

    def extra_repr(self) -> str:
        vertices, length = self.spirals.shape
        return (
            f"{self.in_features}, {self.out_features}, {vertices} vertices, spirals of {length}, "
            f"bias={self.bias is not None}"
        )


def _require_spirals(spirals: Tensor) -> None:
    if spirals.ndim != 2 or spirals.dtype != torch.int64 or spirals.numel() == 0:
        raise ValueError(f"spirals must be int64 (V, L), got {tuple(spirals.shape)} {spirals.dtype}")
    if not bool(((spirals >= 0) & (spirals <= len(spirals))).all()):
        raise ValueError(
            f"spirals of {len(spirals)} vertices must hold numbers from 0 to {len(spirals)} (which stands for none), "
            f"got {int(spirals.min())} to {int(spirals.max())}"
        )


def _can_go_by_block(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and x.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and only_autograd_watches(x, weight)
    )


def _all_at_once(x: Tensor, weight: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    padded = F.pad(x, (0, 0, 0, 1))  # the vertex that stands for none
    gathered = padded.index_select(-2, columns)  # (..., V * L, in)
    return F.linear(gathered.reshape(*x.shape[:-1], weight.shape[1]), weight, bias)


class _ByBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, columns: Tensor, back: Bags) -> Tensor:
        ctx.save_for_backward(x, weight, bias, columns, back.rows, back.starts)
        samples = x.reshape(-1, *x.shape[-2:])
        out = x.new_empty(*samples.shape[:2], len(weight))
        block, transposed = _Block(samples, columns), weight.t()
        for few, there in zip(samples.split(block.size), out.split(block.size), strict=True):
            gathered, target = block.gather(few), there.view(-1, len(weight))
            if bias is None:
                torch.mm(gathered, transposed, out=target)
            else:
                torch.addmm(bias, gathered, transposed, out=target)
        return out.view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, columns, rows, starts = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            out = _all_at_once(x, weight, bias, columns)
            found = differentiate_again(out, (x, weight, bias), gradient, ctx.needs_input_grad[:3])
            return *found, None, None
        to_x, to_weight, to_bias = ctx.needs_input_grad[:3]
        samples, gradients = x.reshape(-1, *x.shape[-2:]), gradient.reshape(-1, *gradient.shape[-2:])
        grad_x = torch.empty_like(samples, memory_format=torch.contiguous_format) if to_x else None
        grad_weight = torch.zeros_like(weight) if to_weight else None
        block = _Block(samples, columns)
        back = Bags(rows, starts).repeated(block.size, len(columns))
        for first in range(0, len(samples), block.size):
            few = samples[first : first + block.size]
            coming = gradients[first : first + block.size].reshape(-1, len(weight))
            if grad_weight is not None:
                grad_weight.addmm_(coming.t(), block.gather(few))
            if grad_x is not None:
                torch.mm(coming, weight, out=block.gathered(len(few)))
                grad_x[first : first + block.size] = back.first(len(few), block.size).sum(block.rows).view_as(few)
        return (
            None if grad_x is None else grad_x.view_as(x),
            grad_weight,
            gradients.sum((0, 1)) if to_bias else None,
            None,
            None,
        )


class _Block:
    """The spirals of a few samples after the other, in the same memory."""

    def __init__(self, samples: Tensor, columns: Tensor) -> None:
        count, vertices, features = samples.shape
        self.size = max(1, min(count, _BLOCK // (len(columns) * features)))
        self.padded = samples.new_zeros(self.size, vertices + 1, features)  # the last vertex stands for none
        shift = (vertices + 1) * torch.arange(self.size, device=columns.device)
        self.columns = columns if self.size == 1 else (shift[:, None] + columns).flatten()
        self.rows = samples.new_empty(len(self.columns), features)
        self.per_sample = len(columns)
        self.vertices = vertices

    def gathered(self, samples: int) -> Tensor:
        """The memory for the spirals of so many samples, a row for each vertex."""
        return self.rows[: samples * self.per_sample].view(samples * self.vertices, -1)

    def gather(self, few: Tensor) -> Tensor:
        self.padded[: len(few), :-1] = few
        size = len(few) * self.per_sample
        torch.index_select(self.padded.flatten(0, 1), 0, self.columns[:size], out=self.rows[:size])
        return self.gathered(len(few))
