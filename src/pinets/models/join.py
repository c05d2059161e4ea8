r"""How a residual block puts its shortcut :math:`s` and its branch :math:`r` together.

A baseline adds them, a Π-net multiplies them as well. A join is given the branch before its last normalisation,
together with that normalisation, so that it is free in how the two are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pinets._eager import has_hooks, may_overwrite
from pinets.models.choices import Activation
from pinets.models.join_step import JoinStep

__all__ = ["Add", "Join", "JoinMaker", "Multiply", "Scale", "Site", "add"]


class Join(nn.Module):
    """What all joins have: the activation after them, ``nn.Identity()`` for none."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        """Args: the shortcut, the branch before its last layer, and that last layer."""
        raise NotImplementedError


class Add(Join):
    r"""The baseline's join: :math:`\mathrm{activation}(s + r)`."""

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        return self.activation(last(branch) + shortcut)


class Multiply(Join):
    r"""The second-order join of Π-nets, one :class:`pinets.polynomial.Step` from :math:`z = s` and :math:`x = r`.

    .. math:: \mathrm{activation}(\mathrm{norm}(s * r) + s + r)

    Shortcut and branch come in as values, so each is evaluated once. That is NCP-Skip with :math:`V = I + S`, where
    :math:`S` is the branch.

    Args:
        norm: What is done to the product. Where it starts as zero, the block starts as the baseline's. Without
            gradients its result is written to: it must not be a value that the norm keeps.
        activation: What is done to the sum.

    Example:
        >>> join = Multiply(nn.Identity(), nn.Identity())
        >>> join(torch.tensor([2.0]), torch.tensor([3.0]), nn.Identity())  # 2 * 3 + 2 + 3
        tensor([11.])
    """

    def __init__(self, norm: nn.Module, activation: nn.Module) -> None:
        super().__init__(activation)
        self.step = JoinStep(norm)

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        normed = last(branch)
        overwrites = may_overwrite(normed) and self.step.is_plain and not any(map(has_hooks, self.step.modules()))
        return self.activation(self.step.join(shortcut, normed) if overwrites else self.step(shortcut, normed))


class Scale(nn.Module):
    r"""Multiply by one learnt number: :math:`\alpha x`, with :math:`\alpha = 0` at first.

    A product so scaled is absent at first and grows where it helps; its gradient to :math:`\alpha` is not zero.

    Args:
        inplace: Whether the input may be overwritten where no gradient asks for it.
        device: Where the number is made.
        dtype: Its type.
    """

    def __init__(
        self, *, inplace: bool = False, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.inplace = inplace
        self.alpha = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.alpha)

    def forward(self, x: Tensor) -> Tensor:
        fits = self.inplace and may_overwrite(x) and x.dtype == self.alpha.dtype
        return x.mul_(self.alpha) if fits else self.alpha * x


@dataclass(frozen=True)
class Site:
    """Where in a network a join is to sit.

    Attributes:
        channels: Of the shortcut and the branch.
        identity: Whether the shortcut is the identity; otherwise it is a 1x1 convolution.
        activation: Makes what is done to the sum; ``nn.Identity`` for nothing.
        factory: The ``device`` and ``dtype`` to make parameters with.
    """

    channels: int
    identity: bool
    activation: Activation
    factory: dict[str, Any]


JoinMaker = Callable[[Site], Join]


def add(site: Site) -> Add:
    """The baseline's join."""
    return Add(site.activation())
