"""Optimisers as frozen values of a recipe; the optimisers themselves are torch's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch
from torch import nn

from pinets.train.ranges import require_range

__all__ = ["SGD", "Adam", "AdamW"]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent.

    >>> SGD(lr=0.1, momentum=0.9).build(nn.Linear(2, 2).parameters()).defaults["momentum"]
    0.9
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay)
        require_range("momentum", self.momentum, at_least=0, below=1)
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0, got 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, **asdict(self))


@dataclass(frozen=True)
class Adam:
    """Adam."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay, *self.betas)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, **asdict(self))


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay, *self.betas)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, **asdict(self))


def _check(lr: float, weight_decay: float, *betas: float) -> None:
    require_range("lr", lr, above=0)
    require_range("weight_decay", weight_decay, at_least=0)
    for beta in betas:
        require_range("betas", beta, at_least=0, below=1)
