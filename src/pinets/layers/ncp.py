"""NCP and NCP-Skip: the nested coupled CP decompositions (the paper's Models 2 and 3)."""

from __future__ import annotations

import math

import torch
from torch import nn

from pinets.layers.bias import factor_bias, set_bias_std
from pinets.layers.build import LinearOperator, check_at_least_one, make_operator
from pinets.layers.initialization import draw_weight, fan_in, nested_variances, weight_of
from pinets.polynomial import Polynomial, Step

__all__ = ["NCP", "NCPSkip"]


class NCP(Polynomial):
    r"""Nested coupled CP decomposition: each order mixes the state before it multiplies it.

    .. math::
        x_1 = A_1^T z, \qquad x_n = (A_n^T z) * (S_n^T x_{n-1} + B_n^T b_n), \qquad G(z) = C x_N + \beta

    (:math:`B_1^T b_1`, a scaling of :math:`A_1^T z`, is folded into :math:`A_1`.) With ``nn.Linear``, ``start.weight``
    and ``steps[n - 2].gate.weight`` are :math:`A_n^T`, ``steps[n - 2].body.weight`` is :math:`S_n^T` and its ``bias``
    :math:`B_n^T b_n`; ``head.weight`` is :math:`C` and ``head.bias`` is :math:`\beta`.

    Args:
        in_features: Size (or channels) :math:`d` of the input.
        out_features: Size (or channels) :math:`o` of the output.
        rank: Size :math:`k` of the state.
        order: The degree :math:`N` in the input, at least 1.
        op: Makes the linear operators, called as ``op(fan_in, fan_out, bias=..., device=..., dtype=...)``.
        body_op: Makes the operators on the state; ``op`` by default.
        head_op: Makes the head; ``op`` by default.
        bias_size: The paper's :math:`\omega`: learn :math:`B_n` and :math:`b_n` of this size; by default their product
            is learnt directly.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Example:
        >>> cubic = NCP(64, 10, rank=16, order=3)
        >>> cubic(torch.randn(5, 64)).shape
        torch.Size([5, 10])
    """

    skip_ratio = 0.0  # initial variance of V_n x relative to that of the product
    equation = "x_n = (A_n z) * (S_n x + b_n)"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        rank: int,
        order: int,
        op: LinearOperator = nn.Linear,
        body_op: LinearOperator | None = None,
        head_op: LinearOperator | None = None,
        bias_size: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.in_features = check_at_least_one("in_features", in_features)
        self.out_features = check_at_least_one("out_features", out_features)
        self.rank = check_at_least_one("rank", rank)
        self.bias_size = None if bias_size is None else check_at_least_one("bias_size", bias_size)
        order = check_at_least_one("order", order)

        def view() -> nn.Module:
            return make_operator(op, in_features, rank, bias=False, device=device, dtype=dtype)  # A_n^T

        def mix(*, bias: bool) -> nn.Module:
            return make_operator(body_op or op, rank, rank, bias=bias, device=device, dtype=dtype)

        def body() -> nn.Module:
            operator = mix(bias=True)  # S_n^T, B_n^T b_n
            return operator if bias_size is None else factor_bias(operator, bias_size)

        super().__init__(
            start=view(),
            steps=[
                Step(view(), body(), carry={"state": mix(bias=False)} if self.skip_ratio else None)
                for _ in range(2, order + 1)
            ],
            head=make_operator(head_op or op, rank, out_features, bias=True, device=device, dtype=dtype),  # C, beta
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter: unit-variance input gives unit-variance output, spread over all degrees."""
        features = self.in_features if weight_of(self.start) is None else fan_in(self.start)
        first, steps = nested_variances(self.order, features, skip=self.skip_ratio)
        draw_weight(self.start, first)
        for step, variance in zip(self.steps, steps, strict=True):
            draw_weight(step.gate, 1.0)
            draw_weight(step.body, variance.body)
            set_bias_std(step.body, math.sqrt(variance.bias))
            for operator in step.carry.values():
                draw_weight(operator, variance.skip)
        draw_weight(self.head, 1.0)
        set_bias_std(self.head, 0.0)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, rank={self.rank}, order={self.order}: {self.equation}"


class NCPSkip(NCP):
    r"""NCP that also carries the state over, through a matrix :math:`V_n`.

    .. math::
        x_1 = A_1^T z, \qquad x_n = (A_n^T z) * (S_n^T x_{n-1} + B_n^T b_n) + V_n x_{n-1}, \qquad G(z) = C x_N + \beta

    As :class:`NCP`, and ``steps[n - 2].carry["state"].weight`` is :math:`V_n`.

    Example:
        >>> from functools import partial
        >>> cubic = NCPSkip(3, 8, rank=16, order=3, op=partial(nn.Conv2d, kernel_size=3, padding=1))
        >>> cubic(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 8, 32, 32])
    """

    skip_ratio = 0.5
    equation = "x_n = (A_n z) * (S_n x + b_n) + V_n x"
