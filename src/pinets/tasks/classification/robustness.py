"""Training for proofs: on the worst inputs that an attack finds, or on bounds of all inputs around an image."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets._modes import evaluating
from pinets.algebra.trainable import MarginBound
from pinets.data import Normalize, Transform
from pinets.engine.optimization import require_range

__all__ = ["Attacker", "Ball", "Certified", "Certifier", "Robust"]


@dataclass(frozen=True)
class Ball:
    """All images that differ from one by at most a radius in each pixel, after normalisation.

    Args:
        radius: One number per channel, of shape (channels, 1, 1).
        least: Black, in the same shape.
        most: White.
    """

    radius: Tensor
    least: Tensor
    most: Tensor

    @staticmethod
    def of(eps: float, normalize: Transform) -> Ball:
        """The ball for a radius in pixels from 0 to 1."""
        if not isinstance(normalize, Normalize):
            raise ValueError(f"robust: eps is in pixels, and these inputs are no normalised images but {normalize}")
        black, white = normalize.range()
        return Ball(eps * (white - black), black, white)

    def around(self, inputs: Tensor, share: float = 1.0) -> tuple[Tensor, Tensor]:
        """The least and the largest inputs, within a share of the radius."""
        radius, least, most = (value.to(inputs) for value in (share * self.radius, self.least, self.most))
        return torch.maximum(inputs - radius, least), torch.minimum(inputs + radius, most)


@dataclass(frozen=True)
class Attacker:
    """Moves inputs, within a ball, to where the network is most wrong: projected gradient ascent on the loss.

    Args:
        ball: Where inputs may be moved to.
        steps: Steps of the ascent, from a random point of the ball.
    """

    ball: Ball
    steps: int

    def __call__(self, network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        low, high = self.ball.around(inputs)
        points = low + (high - low) * torch.rand_like(inputs)
        for step in range(self.steps):
            points.requires_grad_()
            loss = F.cross_entropy(network(points), labels, reduction="sum")
            (slope,) = torch.autograd.grad(loss, points)
            length = 2 * self.ball.radius.to(inputs) * (1 - step / self.steps)
            points = (points.detach() + length * slope.sign()).clamp(low, high)
        return points


@dataclass
class Certifier:
    """The loss of the worst outputs that a bound leaves possible, in a ball that grows from nothing.

    Args:
        ball: The ball at its largest.
        weight: The weight of this loss; the loss of the images themselves has the rest.
        linear: As in :class:`~pinets.algebra.trainable.MarginBound`.
        growing: Updates until the ball has its size.
    """

    ball: Ball
    weight: float
    linear: bool
    growing: int = 1
    _bound: MarginBound | None = field(default=None, init=False)

    def loss(self, network: nn.Module, inputs: Tensor, labels: Tensor, step: int) -> Tensor:
        """The loss at an update, with batch norm as in evaluation."""
        low, high = self.ball.around(inputs, min(1.0, step / self.growing))
        with evaluating(network):
            if self._bound is None:
                self._bound = MarginBound(network, inputs, linear=self.linear)
            margins = self._bound(network, low, high, labels)
        return F.cross_entropy(-margins, labels)


@dataclass(frozen=True)
class Robust:
    """Training for proofs: on the worst inputs around the training images that an attack finds.

    The bounds of :func:`pinets.algebra.verify` are so close to what attacks reach that training against an attack
    trains what they prove.

    Args:
        eps: Radius around an image, in pixels from 0 to 1.
        steps: Steps of the attack.
    """

    eps: float
    steps: int = 3

    def __post_init__(self) -> None:
        require_range("eps", self.eps, above=0, below=1)
        require_range("steps", self.steps, at_least=1)

    def build(self, normalize: Transform) -> Attacker:
        """The attack on normalised images."""
        return Attacker(Ball.of(self.eps, normalize), self.steps)


@dataclass(frozen=True)
class Certified:
    """Training for proofs: with a bound of the margins around the training images in the loss.

    Args:
        eps: Radius around an image, in pixels from 0 to 1.
        weight: The weight of the bound; the images themselves have the rest.
        growing: Share of the training in which the radius grows from 0 to ``eps``.
        linear: Whether margins are bounded by linear functions, rather than by intervals: tighter and slower.
    """

    eps: float
    weight: float = 0.5
    growing: float = 0.5
    linear: bool = True

    def __post_init__(self) -> None:
        require_range("eps", self.eps, above=0, below=1)
        require_range("weight", self.weight, above=0, at_most=1)
        require_range("growing", self.growing, above=0, at_most=1)

    def build(self, normalize: Transform) -> Certifier:
        """The loss for normalised images."""
        return Certifier(Ball.of(self.eps, normalize), self.weight, self.linear)
