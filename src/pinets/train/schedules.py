"""Learning-rate schedules: frozen values that say what happens, attached to an optimiser when a run starts.

A schedule that follows the steps is a factor on the initial rate, a pure function of the position in the run; only
:class:`Plateau` remembers anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from pinets.train.ranges import require_range

__all__ = ["Constant", "Exponential", "LinearDecay", "MultiStep", "OneCycle", "Plateau", "Schedule", "Warmup"]


class Schedule(Protocol):
    """A schedule attached to an optimiser."""

    def step(self) -> None:
        """After each update."""

    def validated(self, score: float) -> None:
        """After each validation; higher is better."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class _ByStep:
    """The initial rate times a factor of the step."""

    def __init__(self, optimizer: Optimizer, factor: Factor, steps_per_epoch: int, epochs: float) -> None:
        self._optimizer, self._factor = optimizer, factor
        self._steps_per_epoch, self._epochs = steps_per_epoch, epochs
        self._initial = [group["lr"] for group in optimizer.param_groups]
        self._go_to(0)

    def _go_to(self, step: int) -> None:
        self._step = step
        factor = self._factor.at(step / self._steps_per_epoch, self._epochs)
        for group, initial in zip(self._optimizer.param_groups, self._initial, strict=True):
            group["lr"] = initial * factor

    def step(self) -> None:
        self._go_to(self._step + 1)

    def validated(self, score: float) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._go_to(state["step"])


class _ByScore:
    """The rate falls when the validation's score no longer rises."""

    def __init__(self, optimizer: Optimizer, plateau: Plateau) -> None:
        # torch counts the epochs it forgives; we count those after which the rate falls
        self._scheduler = ReduceLROnPlateau(
            optimizer,
            mode="max",
            factor=plateau.gamma,
            patience=plateau.epochs - 1,
            threshold=0.0,
            min_lr=plateau.floor,
        )

    def step(self) -> None:
        pass

    def validated(self, score: float) -> None:
        self._scheduler.step(score)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._scheduler.best, "bad_epochs": self._scheduler.num_bad_epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._scheduler.best = state["best"]
        self._scheduler.num_bad_epochs = state["bad_epochs"]


class Factor:
    """A schedule that is a factor on the initial rate, by the position in the run."""

    def at(self, epoch: float, epochs: float) -> float:
        """The factor of an update that starts at ``epoch``, in a run of ``epochs``."""
        raise NotImplementedError

    def attach(self, optimizer: Optimizer, *, steps_per_epoch: int, epochs: float) -> Schedule:
        return _ByStep(optimizer, self, steps_per_epoch, epochs)


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
    """Up in a straight line from ``start`` to 1 in the first ``rise`` of the run, then down to ``end``.

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
    """Up in a straight line from ``start`` to the whole rate over the first ``epochs``, on top of another schedule.

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

    def attach(self, optimizer: Optimizer, *, steps_per_epoch: int, epochs: float) -> Schedule:
        return _ByScore(optimizer, self)
