"""Learning from a trained network: its scores stand beside the labels (distillation, Hinton et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets.engine.optimization import require_range
from pinets.engine.recipe import InputInfo
from pinets.engine.trained import TrainedRun

__all__ = ["Lesson", "Teacher"]


@dataclass(frozen=True)
class Lesson:
    """The loss of a network's scores beside those of a trained one.

    Args:
        network: The trained one, in evaluation mode.
        weight: The weight of this loss; the loss of the labels has the rest.
        temperature: Divides the scores of both, which shows how much alike the wrong classes are.
    """

    network: nn.Module
    weight: float
    temperature: float

    def loss(self, inputs: Tensor, scores: Tensor) -> Tensor:
        """The cross-entropy, times the square of the temperature, which keeps the size of its gradient."""
        with torch.no_grad():
            answers = (self.network(inputs).float() / self.temperature).softmax(dim=1)
        return self.temperature**2 * F.cross_entropy(scores.float() / self.temperature, answers)


@dataclass(frozen=True)
class Teacher:
    """A trained classifier whose scores a network learns beside the labels.

    A network with activations can teach a polynomial, which then knows more than labels alone tell it.

    Args:
        run: Its run folder. The data must be the same.
        weight: The weight of its scores; the labels have the rest.
        temperature: Divides the scores of both.
    """

    run: str
    weight: float = 0.9
    temperature: float = 2.0

    def __post_init__(self) -> None:
        require_range("weight", self.weight, above=0, at_most=1)
        require_range("temperature", self.temperature, above=0)

    def build(self, inputs: InputInfo) -> Lesson:
        """The loss for inputs of this kind; a teacher of others is refused."""
        trained = TrainedRun(self.run)
        for what in ("shape", "classes", "preprocessing"):
            found, needed = getattr(trained.inputs, what), getattr(inputs, what)
            if found != needed:
                raise ValueError(f"teacher: the {what} of {self.run} is {found}, and that of the data {needed}")
        return Lesson(trained.network().requires_grad_(False), self.weight, self.temperature)
