r"""Muon: momentum whose direction is made orthogonal, for the weights of convolutions.

A gradient :math:`G = U \Sigma V^\top` of a layer has a few large singular values, and plain descent moves along those
alone. Muon moves by about :math:`U V^\top`, so that every direction learns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["MuonOptimizer", "orthogonalize"]

_ITERATIONS = 3  # singular values then lie between about 0.5 and 1.2, which is near enough
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # the odd polynomial of degree 5 that takes small values to 1 fastest


def orthogonalize(matrix: Tensor) -> Tensor:
    r"""About :math:`U V^\top` for a matrix :math:`U \Sigma V^\top`, by Newton-Schulz iterations in bfloat16.

    Args:
        matrix: A tensor of any shape; axes after the first are joined.

    Example:
        >>> rotated = orthogonalize(torch.tensor([[0.0, 5.0], [-4.0, 0.0]]))
        >>> torch.allclose(rotated, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), atol=0.3)
        True
    """
    x = matrix.reshape(len(matrix), -1).bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)  # no singular value above 1
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).to(matrix.dtype).view(matrix.shape)


class MuonOptimizer(torch.optim.SGD):
    r"""SGD whose groups with ``"orthogonal": momentum`` move by orthogonal directions instead.

    .. math:: B \leftarrow \mu B + G, \qquad
        W \leftarrow \sqrt{m}\,\frac{W}{\lVert W \rVert} - \eta\,\mathrm{orthogonalize}(G + \mu B)

    for a weight W with m outputs. Its norm is set anew in each step, which changes nothing where a batch norm follows,
    and makes :math:`\eta` the relative size of a step.

    Args:
        groups: As for :class:`torch.optim.SGD`; those with ``"orthogonal"`` hold weights of two or more axes.
        options: Passed to :class:`torch.optim.SGD`, for the other groups.
    """

    def __init__(self, groups: list[dict[str, Any]], **options: Any) -> None:
        for group in groups:
            if "orthogonal" in group:
                group.update(momentum=0.0, weight_decay=0.0, nesterov=False)  # SGD then adds -lr times the direction
        super().__init__(groups, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            if "orthogonal" not in group:
                continue
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                momentum, state = group["orthogonal"], self.state[weight]
                if "direction" not in state:
                    state["direction"] = torch.zeros_like(weight)
                direction = state["direction"].mul_(momentum).add_(weight.grad)
                weight.grad = orthogonalize(weight.grad.add(direction, alpha=momentum))
                # a weight of zeros has no direction, and stays
                weight.mul_(len(weight) ** 0.5 / weight.norm().clamp_min(torch.finfo(weight.dtype).tiny))
        return super().step(closure)
