r"""Initial weights by order and model.

With unit-variance input, every model starts with unit-variance output, and degree :math:`m` of an order-:math:`N`
model carries the share

.. math:: w_m = \frac{2 (N + 1 - m)}{N (N + 1)}, \qquad m = 1, \ldots, N

of that variance: the shares fall off linearly, and the highest degree still has :math:`2 / N(N+1)`.
:func:`coupled_odds` (CCP) and :func:`nested_variances` (NCP and NCP-Skip) compute the variances of the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

__all__ = [
    "StepVariances",
    "coupled_odds",
    "degree_shares",
    "draw_coupled_weights",
    "draw_weight",
    "fan_in",
    "nested_variances",
    "weight_of",
]


def degree_shares(order: int) -> list[float]:
    """The initial share of degree 1, 2, ..., ``order`` in the output's variance.

    >>> [round(share, 2) for share in degree_shares(4)]
    [0.4, 0.3, 0.2, 0.1]
    """
    return [2 * (order + 1 - degree) / (order * (order + 1)) for degree in range(1, order + 1)]


def coupled_odds(rank: int) -> Tensor:
    r"""The initial variance :math:`s_j` of the gates of unit :math:`j` in CCP.

    Unit :math:`j` of CCP is :math:`u_1 \prod_{n \ge 2} (1 + u_n)`. With gates of variance :math:`s`, its variance is
    spread over the degrees as Binomial(:math:`N - 1`, :math:`p = s / (1 + s)`): no single :math:`s` reaches all
    degrees of a high order. If :math:`p` is spread over the units as Beta(1, 2), the mixture is beta-binomial, which is
    :func:`degree_shares`.
    """
    quantile = (torch.arange(rank, dtype=torch.float64) + 0.5) / rank
    p = 1 - (1 - quantile).sqrt()
    return p / (1 - p)


@dataclass(frozen=True)
class StepVariances:
    """Initial variances in a step of NCP or NCP-Skip, for a state of variance one."""

    body: float  # of S_n x
    bias: float  # of B_n^T b_n
    skip: float  # of V_n x


def nested_variances(order: int, features: int, *, skip: float = 0.0) -> tuple[float, list[StepVariances]]:
    r"""The initial variances of the first state and of every step of NCP (``skip=0``) and NCP-Skip.

    Write the variance of degree :math:`m` in state :math:`n` as the coefficient of :math:`t^m` in :math:`D_n(t)`.
    A step with gates of variance one gives :math:`D_n = (s_n t + v_n) D_{n-1} + \beta_n t`: the body raises the
    degree, the skip keeps it, the bias starts anew at degree one. So :math:`D_{n-1}` is :math:`D_n` divided by
    :math:`s_n t + v_n`, with remainder :math:`\beta_n`; start at the wanted :math:`D_N` and divide.

    Args:
        order: The order of the model.
        features: The size :math:`d` of the input. All gates see the same norm :math:`|z|`, and for normal input
            :math:`E |z|^{2m}` exceeds :math:`(E |z|^2)^m` by :math:`\prod_{i<m} (1 + 2i/d)`; the shares are divided
            by that.
        skip: The wanted :math:`v_n / s_n`; halved in a step until all variances are positive.
    """
    wanted, moment = [], 1.0
    for degree, share in enumerate(degree_shares(order)):
        moment *= 1 + 2 * degree / features
        wanted.append(share / moment)
    if wanted[-1] == 0:
        raise ValueError(
            f"order {order} is too high for {features} features: E |z|^{2 * order} of normal input exceeds all floats"
        )
    steps: list[StepVariances] = []
    while len(wanted) > 1:
        ratio = skip
        quotient, remainder = _divide(wanted, ratio)
        while remainder < 0 or min(quotient) <= 0:
            ratio = ratio / 2 if ratio > 1e-3 else 0.0
            quotient, remainder = _divide(wanted, ratio)
        body = sum(quotient)
        steps.append(StepVariances(body=body, bias=remainder, skip=ratio * body))
        wanted = [value / body for value in quotient]
    return wanted[0], steps[::-1]


def _divide(coefficients: list[float], root: float) -> tuple[list[float], float]:
    """Synthetic division of c_1 + c_2 t + ... by t + root: the quotient and the remainder."""
    values, carried = [], 0.0
    for coefficient in reversed(coefficients):
        carried = coefficient - root * carried
        values.append(carried)
    *quotient, remainder = values
    return quotient[::-1], remainder


def weight_of(operator: nn.Module) -> Tensor | None:
    """The weight of an operator, or None; an operator without one keeps its own initialisation."""
    weight = getattr(operator, "weight", None)
    return weight if isinstance(weight, Tensor) else None


def fan_in(operator: nn.Module) -> int:
    """The number of inputs that each output of a linear operator sums over.

    It is the operator's ``fan_in`` attribute if there is one, else computed from a weight of shape (out, in, ...).
    """
    known = getattr(operator, "fan_in", None)
    if isinstance(known, int):
        return known
    weight = weight_of(operator)
    if weight is None:
        raise TypeError(f"{operator!r} has neither a weight nor a fan_in")
    if isinstance(operator, nn.modules.conv._ConvTransposeNd):
        # the weight is (in, out / groups, ...), and one in prod(stride) taps of the kernel reaches an output
        taps = weight.shape[0] // operator.groups * math.prod(operator.kernel_size)
        return max(1, taps // math.prod(operator.stride))
    return weight[0].numel()


def draw_weight(operator: nn.Module, variance: float) -> None:
    """Draw the weight so that unit-variance input gives output of the given variance."""
    weight = weight_of(operator)
    if weight is not None:
        nn.init.normal_(weight, std=math.sqrt(variance / fan_in(operator)))


def draw_coupled_weights(operators: list[nn.Module], rank: int) -> None:
    """Draw the factors U_1, ..., U_N of CCP, orthogonal to each other in every unit.

    For normal input the u_n of a unit are then independent, and the variance of their product is the product of their
    variances, also for inputs of small dimension.
    """
    weights = [_unit_major(operator) for operator in operators]
    order, odds, first = len(operators), coupled_odds(rank), weights[0]
    if first is None or first.is_meta or first.shape[0] != rank or any(weight is None for weight in weights):
        for operator in operators:  # no unit axis is known: give all units the same variance
            draw_weight(operator, 1.0 if operator is operators[0] else 1.0 / order)
        return
    taps = first[0].numel()
    drawn = torch.randn(rank, taps, order, dtype=torch.float64, device=first.device)
    if taps >= order:
        drawn = torch.linalg.qr(drawn).Q * math.sqrt(taps)
    variances = [(1 + odds) ** (1 - order)] + [odds] * (order - 1)
    with torch.no_grad():
        for operator, weight, vectors, variance in zip(operators, weights, drawn.unbind(-1), variances, strict=True):
            scale = (variance / fan_in(operator)).sqrt().to(vectors)[:, None]
            cast("Tensor", weight).copy_((vectors * scale).reshape(first.shape))


def _unit_major(operator: nn.Module) -> Tensor | None:
    """The weight as a view of shape (units, ...), or None."""
    weight = weight_of(operator)
    if weight is not None and isinstance(operator, nn.modules.conv._ConvTransposeNd):
        return weight.transpose(0, 1)
    return weight
