"""The size of a classifier's outputs on damaged images and on random pixels.

A polynomial has no bound, so a good accuracy says little about the next image. Every kind of damage is applied to the
same test images, and the largest output is compared with the usual one on the undamaged images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["DAMAGES", "Stress", "stress"]

Damage = Callable[[Tensor, torch.Generator], Tensor]  # of images with pixels from 0 to 1

_BATCH = 500
_SOUGHT = 64  # images from which gradient ascent starts
_STEPS = 40


def _noise(size: float) -> Damage:
    return lambda x, g: (x + size * torch.randn(x.shape, generator=g)).clamp(0, 1)


def _shifted(x: Tensor, g: torch.Generator) -> Tensor:
    down, right = (int(torch.randint(-8, 9, (), generator=g)) for _ in range(2))
    return x.roll((down, right), (2, 3))


def _salt_and_pepper(x: Tensor, g: torch.Generator) -> Tensor:
    draw = torch.rand(x.shape, generator=g)
    return torch.where(draw < 0.05, 0.0, torch.where(draw > 0.95, 1.0, x))


DAMAGES: dict[str, Damage] = {
    "none": lambda x, g: x,
    "noise 0.1": _noise(0.1),
    "noise 0.3": _noise(0.3),
    "salt and pepper": _salt_and_pepper,
    "shifted": _shifted,
    "blurred": lambda x, g: F.avg_pool2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), 5, stride=1),
    "brighter": lambda x, g: (x + 0.3).clamp(0, 1),
    "darker": lambda x, g: (x - 0.3).clamp(0, 1),
    "strong contrast": lambda x, g: (2 * x - x.mean((1, 2, 3), keepdim=True)).clamp(0, 1),
    "vivid colours": lambda x, g: (3 * x - 2 * x.mean(1, keepdim=True)).clamp(0, 1),
    "negative": lambda x, g: 1 - x,
    "random pixels": lambda x, g: torch.rand(x.shape, generator=g),
    "out of range": lambda x, g: 1.5 * x,
}


@dataclass(frozen=True)
class Stress:
    """The outputs of a network for one kind of damage.

    Attributes:
        damage: Its name.
        images: Number of images.
        accuracy: Share of the images whose class is right.
        largest: Largest absolute output over all images.
        ratio: ``largest`` over the median of the undamaged images' largest outputs.
        beyond: Number of images whose ratio is above 10.
    """

    damage: str
    images: int
    accuracy: float
    largest: float
    ratio: float
    beyond: int


def stress(
    network: nn.Module, pixels: Tensor, labels: Tensor, prepare: Callable[[Tensor], Tensor], *, seed: int = 0
) -> list[Stress]:
    """Measure a network on damaged images, one row for each kind of damage.

    The last row is the largest output that gradient ascent from the first images finds anywhere between black and
    white: no bound over all images can be lower.

    Args:
        network: The classifier.
        pixels: Images as bytes, (N, C, H, W).
        labels: Their classes.
        prepare: From images with pixels from 0 to 255 to what the network takes.
        seed: Seed of the damage.
    """
    rows: list[Stress] = []
    usual = 1.0
    for name, damage in {**DAMAGES, "sought by gradient": _sought(network, prepare)}.items():
        generator = torch.Generator().manual_seed(seed)
        count = len(pixels) if name in DAMAGES else min(_SOUGHT, len(pixels))
        largest, right = [], 0
        with torch.no_grad():
            for images, classes in zip(pixels[:count].split(_BATCH), labels[:count].split(_BATCH), strict=True):
                outputs = network(prepare(255 * damage(images / 255, generator)))
                largest.append(outputs.abs().amax(1).nan_to_num(nan=torch.inf))
                right += int((outputs.argmax(1) == classes).sum())
        each = torch.cat(largest)
        if name == "none":
            usual = float(each.median())
        beyond = int((each > 10 * usual).sum())
        top = float(each.max())
        rows.append(Stress(name, count, right / count, top, top / usual if usual else math.inf, beyond))
    return rows


def _sought(network: nn.Module, prepare: Callable[[Tensor], Tensor]) -> Damage:
    """Moves pixels to where the largest output of each image becomes larger."""

    def damage(x: Tensor, g: torch.Generator) -> Tensor:
        for step in range(_STEPS):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                size = network(prepare(255 * x)).abs().amax(1).log().sum()  # sizes may differ by powers of ten
            (slope,) = torch.autograd.grad(size, x)
            slope = slope.nan_to_num(nan=0.0)  # outputs of 0 and infinite ones have none: such an image stays
            x = (x.detach() + 0.1 * (1 - step / _STEPS) * slope.sign()).clamp(0, 1)
        return x

    return damage
