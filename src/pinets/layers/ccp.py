"""CCP: the coupled CP decomposition (the paper's Model 1)."""

from __future__ import annotations

import torch
from torch import nn

from pinets.layers.bias import set_bias_std
from pinets.layers.build import LinearOperator, check_at_least_one, make_operator
from pinets.layers.initialization import draw_coupled_weights, draw_weight
from pinets.polynomial import Polynomial, Step

__all__ = ["CCP"]


class CCP(Polynomial):
    r"""Coupled CP decomposition: each order multiplies the state by a view of the input, and keeps the state.

    .. math::
        x_1 = U_1^T z, \qquad x_n = (U_n^T z) * x_{n-1} + x_{n-1}, \qquad G(z) = C x_N + \beta

    With ``nn.Linear``, ``start.weight`` and ``steps[n - 2].gate.weight`` are :math:`U_n^T`, ``head.weight`` is
    :math:`C` and ``head.bias`` is :math:`\beta`.

    Args:
        in_features: Size (or channels) :math:`d` of the input.
        out_features: Size (or channels) :math:`o` of the output.
        rank: Size :math:`k` of the state.
        order: The degree :math:`N` in the input, at least 1.
        op: Makes the linear operators, called as ``op(fan_in, fan_out, bias=..., device=..., dtype=...)``.
        head_op: Makes the head; ``op`` by default.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Example:
        >>> cubic = CCP(64, 10, rank=16, order=3)
        >>> cubic(torch.randn(5, 64)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        rank: int,
        order: int,
        op: LinearOperator = nn.Linear,
        head_op: LinearOperator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.in_features = check_at_least_one("in_features", in_features)
        self.out_features = check_at_least_one("out_features", out_features)
        self.rank = check_at_least_one("rank", rank)
        order = check_at_least_one("order", order)
        super().__init__(
            start=make_operator(op, in_features, rank, bias=False, device=device, dtype=dtype),  # U_1^T
            steps=[
                Step(
                    gate=make_operator(op, in_features, rank, bias=False, device=device, dtype=dtype),  # U_n^T
                    carry={"state": nn.Identity()},
                )
                for _ in range(2, order + 1)
            ],
            head=make_operator(head_op or op, rank, out_features, bias=True, device=device, dtype=dtype),  # C, beta
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter: unit-variance input gives unit-variance output, spread over all degrees."""
        draw_coupled_weights([self.start, *(step.gate for step in self.steps)], self.rank)
        draw_weight(self.head, 1.0)
        set_bias_std(self.head, 0.0)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, rank={self.rank}, order={self.order}: x_n = (U_n z) * x + x"
