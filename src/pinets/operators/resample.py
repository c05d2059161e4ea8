"""Going from one resolution of a mesh to another: each vertex a weighted sum of a few others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pinets._eager import only_autograd_watches
from pinets.operators.bags import Bags, transposed_bags

__all__ = ["Resample"]


class Resample(nn.Module):
    r"""Each vertex of the output is a weighted sum of ``k`` vertices of the input. Linear, without parameters.

    .. math:: y_v = \sum_{i=1}^{k} w_{v, i} \, x_{c(v, i)}

    Down-sampling keeps a subset of the vertices (no weights), up-sampling takes the three corners of the coarse face
    that a fine vertex lies on. Vertices come before features: (..., V, features).

    Args:
        vertices: How many the input has.
        indices: int64, (outputs, k), or (outputs,) where there are no weights.
        weights: (outputs, k).
        device: Where the indices and weights are kept.
        dtype: Type of the weights.

    Example:
        >>> middle = Resample(2, torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.5]]))
        >>> middle(torch.tensor([[[0.0, 2.0], [4.0, 4.0]]]))
        tensor([[[2., 3.]]])
    """

    indices: Tensor
    weights: Tensor | None
    _rows: Tensor
    _starts: Tensor
    _transposed_weights: Tensor

    def __init__(
        self,
        vertices: int,
        indices: Tensor,
        weights: Tensor | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (len(indices),) if weights is None else tuple(weights.shape)
        if indices.shape != shape or indices.dtype != torch.int64 or indices.numel() == 0:
            raise ValueError(
                f"indices must be int64, (outputs,) without weights or (outputs, k) as the weights are; got "
                f"{tuple(indices.shape)} {indices.dtype} and weights {None if weights is None else shape}"
            )
        if not bool(((indices >= 0) & (indices < vertices)).all()):
            raise ValueError(
                f"indices must name one of {vertices} vertices, got {int(indices.min())} to {int(indices.max())}"
            )
        self.vertices = vertices
        buffers = {"indices": indices}
        if weights is None:
            self.weights = None
        else:
            weights = weights.to(torch.get_default_dtype() if dtype is None else dtype)
            places, starts = transposed_bags(indices.flatten(), vertices)
            # the transpose sums outputs, each of which stands k times in the list of places
            rows = torch.div(places, indices.shape[1], rounding_mode="floor")
            buffers |= {"weights": weights, "_transposed_weights": weights.flatten()[places]}
            buffers |= {"_rows": rows, "_starts": starts}
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer.to(device=device), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[-2] != self.vertices:
            raise ValueError(f"Resample expects {self.vertices} vertices, got shape {tuple(x.shape)}")
        if self.weights is None:
            return x.index_select(-2, self.indices)
        outputs, k = self.indices.shape
        if self._can_go_by_sample(x):
            starts = torch.arange(0, outputs * k, k)
            there = Bags(self.indices.flatten(), starts, self.weights.flatten())
            return _BySample.apply(x, there, Bags(self._rows, self._starts, self._transposed_weights))
        parts = x.index_select(-2, self.indices.flatten()).reshape(*x.shape[:-2], outputs, k, x.shape[-1])
        return (parts * self.weights[:, :, None]).sum(-2)

    def _can_go_by_sample(self, x: Tensor) -> bool:
        return (
            x.device.type == "cpu"
            and x.numel() > 0
            and self.weights is not None
            and x.dtype == self.weights.dtype
            and x.dtype in (torch.float32, torch.float64)
            and only_autograd_watches(x)
        )

    def extra_repr(self) -> str:
        each = "" if self.weights is None else f", each of {self.indices.shape[1]}"
        return f"{self.vertices} to {len(self.indices)} vertices{each}"


class _BySample(torch.autograd.Function):
    """A sparse matrix times each sample; backward its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Bags, back: Bags) -> Tensor:
        ctx.bags = there, back
        samples = x.reshape(-1, *x.shape[-2:])
        out = torch.stack([there.sum(sample) for sample in samples.contiguous()])
        return out.view(*x.shape[:-2], *out.shape[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        there, back = ctx.bags
        return _BySample.apply(gradient, back, there), None, None
