"""Spiral convolution: a linear map of the features along each vertex's spiral, the same for all vertices."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["SpiralConv"]


class SpiralConv(nn.Module):
    r"""A linear map of the features along each vertex's spiral.

    .. math:: y_v = b + \sum_{l=1}^{L} W_l \, x_{s(v, l)}

    The input is (..., V, in_features). ``weight`` is (out_features, L * in_features): first the columns of
    :math:`W_1`, those for the vertex itself. ``partial(SpiralConv, spirals=spirals)`` can be the ``op`` of
    :class:`~pinets.NCP` and the other layers.

    Args:
        in_features: Features of a vertex.
        out_features: Features of a vertex afterwards.
        spirals: int64, (V, L): each vertex and L - 1 vertices around it. The number V stands for "no vertex" and is
            read as zeros.
        bias: Whether to add :math:`b`.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Example:
        >>> spirals = torch.tensor([[0, 1], [1, 2], [2, 3]])  # each vertex and the next; the last has none
        >>> conv = SpiralConv(1, 1, spirals, bias=False)
        >>> _ = nn.init.ones_(conv.weight)
        >>> conv(torch.tensor([[[1.0], [10.0], [100.0]]])).detach().flatten()
        tensor([ 11., 110., 100.])
    """

    spirals: Tensor

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
        if spirals.ndim != 2 or spirals.dtype != torch.int64 or spirals.numel() == 0:
            raise ValueError(f"spirals must be int64 (V, L), got {tuple(spirals.shape)} {spirals.dtype}")
        if not bool(((spirals >= 0) & (spirals <= len(spirals))).all()):
            raise ValueError(
                f"spirals of {len(spirals)} vertices must hold numbers from 0 to {len(spirals)} (which stands for "
                f"none), got {int(spirals.min())} to {int(spirals.max())}"
            )
        self.in_features, self.out_features = in_features, out_features
        columns = spirals.shape[1] * in_features
        self.weight = nn.Parameter(torch.empty(out_features, columns, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        # not in the state dict: spirals belong to the template and are not learnt
        self.register_buffer("spirals", spirals.to(device=device), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight so that the output has the variance of the input; set the bias to zero."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        vertices, length = self.spirals.shape
        if x.ndim < 2 or x.shape[-2:] != (vertices, self.in_features):
            raise ValueError(
                f"SpiralConv expects {vertices} vertices of {self.in_features} features, got shape {tuple(x.shape)}"
            )
        padded = F.pad(x, (0, 0, 0, 1))  # row V, which spirals name for "no vertex", is zero
        gathered = padded.index_select(-2, self.spirals.flatten())  # (..., V * L, in)
        return F.linear(gathered.reshape(*x.shape[:-1], length * self.in_features), self.weight, self.bias)

    def extra_repr(self) -> str:
        vertices, length = self.spirals.shape
        return (
            f"{self.in_features}, {self.out_features}, {vertices} vertices, spirals of {length}, "
            f"bias={self.bias is not None}"
        )
