"""Moving features from one resolution of a mesh to another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Resample"]


class Resample(nn.Module):
    r"""Each vertex of the output is a weighted sum of ``k`` vertices of the input. Linear, without parameters.

    .. math:: y_v = \sum_{i=1}^{k} w_{v, i} \, x_{c(v, i)}

    Down-sampling keeps a subset of the vertices (no weights). Up-sampling takes the three corners of the coarse face
    that a fine vertex lies on. The input is (..., V, features).

    Args:
        vertices: Number of vertices of the input.
        indices: int64, (outputs, k); (outputs,) without weights.
        weights: (outputs, k).
        device: Device of the indices and weights.
        dtype: Type of the weights.

    Example:
        >>> middle = Resample(2, torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.5]]))
        >>> middle(torch.tensor([[[0.0, 2.0], [4.0, 4.0]]]))
        tensor([[[2., 3.]]])
    """

    indices: Tensor
    weights: Tensor | None

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
        if weights is not None:
            weights = weights.to(device=device, dtype=torch.get_default_dtype() if dtype is None else dtype)
        self.register_buffer("indices", indices.to(device=device), persistent=False)
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[-2] != self.vertices:
            raise ValueError(f"Resample expects {self.vertices} vertices, got shape {tuple(x.shape)}")
        gathered = x.index_select(-2, self.indices.flatten())
        if self.weights is None:
            return gathered
        return (gathered.unflatten(-2, self.indices.shape) * self.weights[:, :, None]).sum(-2)

    def extra_repr(self) -> str:
        each = "" if self.weights is None else f", each of {self.indices.shape[1]}"
        return f"{self.vertices} to {len(self.indices)} vertices{each}"
