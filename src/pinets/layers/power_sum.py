"""A polynomial activation: the sum of the powers of its input."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.polynomial import Step

__all__ = ["PowerSum"]


class PowerSum(nn.Module):
    r"""The sum of the element-wise powers of its input, each normalised on its own.

    .. math:: y = x + \sum_{n=2}^{N} \mathrm{norm}_n(\underbrace{x * x * \cdots * x}_{n})

    After a linear operator :math:`S` this is the paper's "ProdPoly simple" layer, which has higher orders without
    further operators: ``nn.Sequential(op(i, o), PowerSum(order))``; a bias :math:`\beta` may follow.

    Args:
        order: The highest power, at least 1.
        norm: Makes one normalisation for each power from the second on, such as ``lambda: nn.BatchNorm1d(64)``;
            none by default.

    Example:
        >>> import torch
        >>> PowerSum(3)(torch.tensor([2.0]))  # 2 + 4 + 8
        tensor([14.])
    """

    def __init__(self, order: int, *, norm: Callable[[], nn.Module] | None = None) -> None:
        super().__init__()
        self.order = check_at_least_one("order", order)
        self.steps = nn.ModuleList(Step(gate=nn.Identity()) for _ in range(order - 1))  # x^n = x * x^(n-1)
        self.norms = nn.ModuleList(nn.Identity() if norm is None else norm() for _ in range(order - 1))

    def forward(self, x: Tensor) -> Tensor:
        power = total = x
        for step, norm in zip(self.steps, self.norms, strict=True):
            power = step(x, power)
            total = total + norm(power)
        return total

    def extra_repr(self) -> str:
        return f"order={self.order}"
