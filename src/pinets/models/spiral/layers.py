r"""The layers of a spiral network: plain, full (NCP and NCP-Skip) and simple.

All of them are makers: called with the widths and the spirals of a level, they return a module that maps
(..., V, in) to (..., V, out).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pinets.layers import PowerSum
from pinets.layers.build import check_at_least_one
from pinets.models.parts import Bias
from pinets.models.spiral.gain import start_with_gain
from pinets.models.spiral.norms import MakeNorm
from pinets.operators import SpiralConv
from pinets.polynomial import Source, Step

__all__ = ["MakeLayer", "SpiralPolynomial", "full_layer", "plain_layer", "simple_layer"]


class MakeLayer(Protocol):
    """Makes one layer of a network."""

    def __call__(
        self,
        in_features: int,
        out_features: int,
        spirals: Tensor,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> nn.Module: ...


class SpiralPolynomial(nn.Module):
    r"""A polynomial of order N of the features along the spirals.

    .. math:: x_n = \mathrm{norm}_n\big((A_n x_1) * (S_n x_{n-1})\big) + A_n x_1 \;[+ V_n x_{n-1}], \qquad
        y = x_N + \beta

    for n = 2, ..., N, with :math:`x_1` the input and spiral convolutions :math:`A_n` and :math:`S_n`. The brackets are
    NCP-Skip. The input is gathered along the spirals once: ``views.weight`` holds the rows of
    :math:`S_2, A_2, \ldots, A_N` one after the other.

    Args:
        views: What looks at the input, :math:`S_2` and all :math:`A_n`, in one operator, N times as wide as the output.
        steps: One for each n from 2 on; all are handed their gate computed, and the first its body as well.
        carry: The :math:`V_2` of NCP-Skip.
        bias: Adds :math:`\beta`.
    """

    steps: Sequence[Step]  # an nn.ModuleList, which does not tell the type of its modules

    def __init__(
        self, views: SpiralConv, steps: Sequence[Step], bias: nn.Module, carry: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.views = views  # S_2, A_2, ..., A_N
        self.steps = nn.ModuleList(steps)  # type: ignore[assignment]
        self.carry = carry  # V_2
        self.bias = bias  # beta
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Share the variance among the terms that a fresh layer sums: A_2 x_1, ..., A_N x_1 and V_2 x_1.

        Where V_2 is the identity it keeps its own, and the variance grows to at most twice the input's.
        Norms that start with a scale of zero silence the products. Of NCP without V_2 only A_N x_1 is left then, and
        gets it all.
        """
        start_with_gain(self.views)
        for step in self.steps:
            if isinstance(step.body, SpiralConv):
                start_with_gain(step.body)
        if self.carry is None:
            return
        with torch.no_grad():
            of_body = self.views.out_features // self.order
            self.views.weight[of_body:].mul_(self.order**-0.5)
        if isinstance(self.carry, nn.Linear):
            start_with_gain(self.carry, 1 / self.order)

    @property
    def order(self) -> int:
        return 1 + len(self.steps)

    def forward(self, x: Tensor) -> Tensor:
        state, *gates = self.views(x).chunk(self.order, dim=-1)
        carried = None if self.carry is None else self.carry(x)
        for gate, step in zip(gates, self.steps, strict=True):
            state = step(gate, state)
            if carried is not None:  # into x_2 alone: the steps carry the states after it
                state, carried = state + carried, None
        return self.bias(state)


def plain_layer(
    in_features: int,
    out_features: int,
    spirals: Tensor,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """A spiral convolution: order 1."""
    conv = SpiralConv(in_features, out_features, spirals, device=device, dtype=dtype)
    start_with_gain(conv)
    return conv


def full_layer(order: int, norm: MakeNorm, *, skip: bool) -> MakeLayer:
    """Layers of the given order as :class:`SpiralPolynomial`.

    With ``skip`` the state is also carried over: as it is, or where the layer changes the number of features, through
    a matrix of its own, the same for all vertices (:math:`V_2`; published code leaves this term out).
    """
    check_at_least_one("order", order)
    if order == 1:
        return plain_layer

    def make(
        in_features: int,
        out_features: int,
        spirals: Tensor,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> nn.Module:
        where: dict[str, Any] = {"device": device, "dtype": dtype}

        def step(body: nn.Module | None) -> Step:
            carry: dict[Source, nn.Module] = {"gate": nn.Identity()}
            if skip and body is not None:
                carry["state"] = nn.Identity()
            return Step(nn.Identity(), body, norm=norm(len(spirals), out_features, **where), carry=carry)

        mixes = [SpiralConv(out_features, out_features, spirals, bias=False, **where) for _ in range(3, order + 1)]
        unchanged = in_features == out_features
        project = nn.Identity() if unchanged else nn.Linear(in_features, out_features, bias=False, **where)
        return SpiralPolynomial(
            SpiralConv(in_features, order * out_features, spirals, bias=False, **where),
            [step(None), *map(step, mixes)],  # S_2 x_1 is computed with the gates
            Bias(out_features, **where),
            carry=project if skip else None,
        )

    return make


def simple_layer(order: int, norm: MakeNorm) -> MakeLayer:
    r"""Layers that sum the powers of one spiral convolution: :math:`S x + \sum_n \mathrm{norm}_n((S x)^n) + \beta`."""
    check_at_least_one("order", order)

    def make(
        in_features: int,
        out_features: int,
        spirals: Tensor,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> nn.Module:
        conv = SpiralConv(in_features, out_features, spirals, bias=False, device=device, dtype=dtype)
        start_with_gain(conv)
        return nn.Sequential(
            conv,
            PowerSum(order, norm=lambda: norm(len(spirals), out_features, device=device, dtype=dtype)),
            Bias(out_features, device=device, dtype=dtype),
        )

    return make
