"""Optimizers and learning-rate schedules as frozen values of a recipe. What they build is torch's own, but for Muon.

A value is checked when it is made, so that a wrong one is refused before anything is trained. Schedules that follow the
steps are a :class:`~torch.optim.lr_scheduler.LambdaLR`: the initial rate times a factor, a function of the epoch alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from pinets.engine.muon import MuonOptimizer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Exponential",
    "Factor",
    "LinearDecay",
    "MultiStep",
    "Muon",
    "OneCycle",
    "Plateau",
    "Warmup",
    "require_range",
]


def require_range(
    name: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> None:
    """Refuse a number that is out of its range, infinite or NaN.

    >>> require_range("momentum", 0.9, at_least=0, below=1)
    >>> require_range("momentum", -1, at_least=0, below=1)
    Traceback (most recent call last):
    ValueError: momentum must be at least 0 and below 1, got -1
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    kept = (
        math.isfinite(value)
        and (at_least is None or value >= at_least)
        and (above is None or value > above)
        and (at_most is None or value <= at_most)
        and (below is None or value < below)
    )
    if not kept:
        rule = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        finite = "" if math.isfinite(value) else "finite and "
        raise ValueError(f"{name} must be {finite}{rule}, got {value}")


def _check(lr: float, weight_decay: float, *betas: float) -> None:
    require_range("lr", lr, above=0)
    require_range("weight_decay", weight_decay, at_least=0)
    for beta in betas:
        require_range("betas", beta, at_least=0, below=1)


# ---------------------------------------------------------------------------------------------------------- optimizers


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

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return torch.optim.SGD(parameters, **asdict(self))


@dataclass(frozen=True)
class Adam:
    """Adam."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay, *self.betas)

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return torch.optim.Adam(parameters, **asdict(self))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.01

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return torch.optim.AdamW(parameters, **asdict(self))


@dataclass(frozen=True)
class Muon:
    """:class:`~pinets.engine.muon.MuonOptimizer` for the weights of convolutions, SGD for all other parameters.

    Every convolution must be followed by a norm, which the fixed size of its weight then does not change.

    Args:
        lr: The relative size of a step of a convolution's weight.
        momentum: The momentum of the convolutions.
        others: For biases, norms and linear layers. A schedule multiplies both rates.

    Example:
        >>> groups = Muon(lr=0.1).build(nn.Conv2d(3, 8, 3).parameters()).param_groups
        >>> [(group["lr"], len(group["params"])) for group in groups]
        [(0.1, 1), (0.2, 1)]
    """

    lr: float
    momentum: float = 0.8
    others: SGD = SGD(lr=0.2, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def __post_init__(self) -> None:
        _check(self.lr, 0.0)
        require_range("momentum", self.momentum, at_least=0, below=1)

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        values = [*parameters]
        convolutions = [value for value in values if value.ndim > 2]
        if not convolutions:
            raise ValueError("Muon is for networks with convolutions, and this one has none")
        others = [value for value in values if value.ndim <= 2]
        chosen = {"params": convolutions, "lr": self.lr, "orthogonal": self.momentum}
        return MuonOptimizer([chosen, {"params": others}], **asdict(self.others))


# ----------------------------------------------------------------------------------------------------------- schedules


class Factor:
    """A schedule that multiplies the initial rate by a factor, which depends on the epoch alone."""

    def at(self, epoch: float, epochs: float) -> float:
        """The factor of an update that starts at ``epoch``, in a run of ``epochs``."""
        raise NotImplementedError

    def attach(self, optimizer: Optimizer, *, steps_per_epoch: int, epochs: float) -> LRScheduler:
        """The scheduler of an optimizer, which is stepped after each update."""
        return _ByStep(optimizer, lambda step: self.at(step / steps_per_epoch, epochs))


class _ByStep(LambdaLR):
    """Checkpoints keep the step alone: the recipe has the rest."""

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["step"]


@dataclass(frozen=True)
class Constant(Factor):
    """The initial rate throughout."""

    def at(self, epoch: float, epochs: float) -> float:
        return 1.0


@dataclass(frozen=True)
class MultiStep(Factor):
    """Multiply the rate by ``gamma`` at each of the ``milestones``, in epochs.

    >>> schedule = MultiStep((40, 60), gamma=0.1)
    >>> [round(schedule.at(epoch, 120), 6) for epoch in (0, 39.99, 40, 60)]
    [1.0, 1.0, 0.1, 0.01]
    """

    milestones: tuple[float, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        require_range("gamma", self.gamma, above=0)
        for milestone in self.milestones:
            require_range("milestones", milestone, at_least=0)

    def at(self, epoch: float, epochs: float) -> float:
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Exponential(Factor):
    """Multiply the rate by ``gamma`` at the end of every epoch.

    >>> round(Exponential(0.99).at(2.5, 300), 6)
    0.9801
    """

    gamma: float = 0.99

    def __post_init__(self) -> None:
        require_range("gamma", self.gamma, above=0)

    def at(self, epoch: float, epochs: float) -> float:
        return self.gamma ** int(epoch)


@dataclass(frozen=True)
class LinearDecay(Factor):
    """From the initial rate in a straight line to 0 at the end of the run.

    >>> LinearDecay().at(30, 120)
    0.75
    """

    def at(self, epoch: float, epochs: float) -> float:
        return max(0.0, 1 - epoch / epochs)


@dataclass(frozen=True)
class OneCycle(Factor):
    """Up in a straight line from ``start`` to 1 during the share ``rise`` of the run, then down to ``end``.

    >>> [round(OneCycle(rise=0.25).at(epoch, 8), 6) for epoch in (0, 1, 2, 5, 8)]
    [0.1, 0.55, 1.0, 0.5, 0.0]
    """

    rise: float = 0.25
    start: float = 0.1
    end: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rise < 1:
            raise ValueError(f"rise is a share of the run, at least 0 and below 1, got {self.rise}")
        require_range("start", self.start, at_least=0)
        require_range("end", self.end, at_least=0)

    def at(self, epoch: float, epochs: float) -> float:
        position = epoch / epochs
        if position < self.rise:
            return self.start + (1 - self.start) * position / self.rise
        return max(self.end, 1 + (self.end - 1) * (position - self.rise) / (1 - self.rise))


@dataclass(frozen=True)
class Warmup(Factor):
    """Up in a straight line from ``start`` to the whole rate over the first ``epochs``, times another schedule.

    >>> schedule = Warmup(epochs=5, then=MultiStep((30, 60, 80)))
    >>> [round(schedule.at(epoch, 90), 6) for epoch in (0, 2.5, 5, 30)]
    [0.1, 0.55, 1.0, 0.1]
    """

    epochs: float = 5.0
    start: float = 0.1
    then: Constant | MultiStep | Exponential | LinearDecay | OneCycle = Constant()

    def __post_init__(self) -> None:
        if self.epochs <= 0:
            raise ValueError(f"epochs must be above 0, got {self.epochs}; without a warm-up, use its schedule itself")
        require_range("epochs", self.epochs, above=0)
        require_range("start", self.start, at_least=0)

    def at(self, epoch: float, epochs: float) -> float:
        warm = min(1.0, epoch / self.epochs)
        return (self.start + (1 - self.start) * warm) * self.then.at(epoch, epochs)


@dataclass(frozen=True)
class Plateau:
    """Multiply the rate by ``gamma`` when the validation's score has not risen for ``epochs`` validations."""

    epochs: int = 2
    gamma: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        require_range("epochs", self.epochs, at_least=1)
        require_range("gamma", self.gamma, above=0, below=1)
        require_range("floor", self.floor, at_least=0)

    def attach(self, optimizer: Optimizer, *, steps_per_epoch: int, epochs: float) -> LRScheduler:
        """The scheduler of an optimizer, which is stepped after each validation with its score; higher is better."""
        return _ByScore(
            optimizer,
            mode="max",
            factor=self.gamma,
            patience=self.epochs - 1,  # torch counts the validations that change nothing
            threshold=0.0,
            min_lr=self.floor,
        )


class _ByScore(ReduceLROnPlateau):
    """Checkpoints keep what the validations have shown: the recipe has the rest."""

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "bad_epochs": self.num_bad_epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.num_bad_epochs = state_dict["best"], state_dict["bad_epochs"]
