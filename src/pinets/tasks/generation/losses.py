r"""Losses of a generator and its discriminator, as frozen values of a recipe.

With the scores :math:`s` of real and :math:`\hat s` of generated images:

| loss | discriminator | generator |
|---|---|---|
| ``Hinge`` | :math:`E \max(0, 1 - s) + E \max(0, 1 + \hat s)` | :math:`-E \hat s` |
| ``NonSaturating`` | :math:`E\,\mathrm{softplus}(-s) + E\,\mathrm{softplus}(\hat s) + \frac{\gamma}{2} E |\nabla s|^2` | :math:`E\,\mathrm{softplus}(-\hat s)` |
| ``Wasserstein`` | :math:`E \hat s - E s + \lambda E (|\nabla \tilde s| - 1)^2` | :math:`-E \hat s` |

:math:`\nabla` is by the images: R1 at the real ones, and the gradient penalty between real and generated ones.

The discriminator is called once: networks that are spread over processes, or whose weights are normalised as they are
used, want one forward pass for each backward pass.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["AdversarialLoss", "Hinge", "NonSaturating", "Wasserstein"]

Discriminator = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Hinge:
    """The hinge loss, of SNGAN.

    >>> Hinge().discriminator(lambda images: images, torch.tensor([2.0, 0.5]), torch.tensor([-3.0, 1.0]))
    tensor(1.2500)
    """

    def discriminator(self, discriminator: Discriminator, real: Tensor, fake: Tensor) -> Tensor:
        real_scores, fake_scores = _scores(discriminator, real, fake)
        return F.relu(1 - real_scores).mean() + F.relu(1 + fake_scores).mean()

    def generator(self, fake_scores: Tensor) -> Tensor:
        return -fake_scores.mean()


@dataclass(frozen=True)
class NonSaturating:
    """The non-saturating loss with the R1 penalty, of StyleGAN.

    Args:
        r1: The weight of the penalty; 0 for none.
    """

    r1: float = 10.0

    def __post_init__(self) -> None:
        if self.r1 < 0:
            raise ValueError(f"r1 must not be negative, got {self.r1}")

    def discriminator(self, discriminator: Discriminator, real: Tensor, fake: Tensor) -> Tensor:
        real = real.detach().requires_grad_(self.r1 > 0)
        real_scores, fake_scores = _scores(discriminator, real, fake)
        loss = F.softplus(-real_scores).mean() + F.softplus(fake_scores).mean()
        if self.r1 == 0:
            return loss
        return loss + self.r1 / 2 * _squared_slopes(real_scores, real).mean()

    def generator(self, fake_scores: Tensor) -> Tensor:
        return F.softplus(-fake_scores).mean()


@dataclass(frozen=True)
class Wasserstein:
    """The Wasserstein loss with a gradient penalty (WGAN-GP).

    Args:
        penalty: The weight of the penalty.
    """

    penalty: float = 10.0

    def __post_init__(self) -> None:
        if self.penalty < 0:
            raise ValueError(f"penalty must not be negative, got {self.penalty}")

    def discriminator(self, discriminator: Discriminator, real: Tensor, fake: Tensor) -> Tensor:
        share = torch.rand(len(real), *[1] * (real.ndim - 1), device=real.device, dtype=real.dtype)
        between = torch.lerp(real.detach(), fake.detach(), share).requires_grad_()
        real_scores, fake_scores, between_scores = _scores(discriminator, real, fake, between)
        # the derivative of the square root is infinite at 0, where the gradient vanishes
        slopes = _squared_slopes(between_scores, between).add(1e-12).sqrt()
        penalty = (slopes - 1).square().mean()
        return fake_scores.mean() - real_scores.mean() + self.penalty * penalty

    def generator(self, fake_scores: Tensor) -> Tensor:
        return -fake_scores.mean()


AdversarialLoss = Hinge | NonSaturating | Wasserstein


def _scores(discriminator: Discriminator, *images: Tensor) -> tuple[Tensor, ...]:
    return discriminator(torch.cat(images)).split([len(part) for part in images])


def _squared_slopes(scores: Tensor, images: Tensor) -> Tensor:
    """The squared norm of the gradient of each score by its image."""
    (gradient,) = torch.autograd.grad(scores.sum(), images, create_graph=True)
    return gradient.flatten(1).square().sum(1)
