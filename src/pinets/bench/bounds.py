"""How tight are the sound bounds on digits, and how many answers can be certified?

Networks of order 3 and 4 are trained on MNIST. Around test images, over all images that differ by at most eps in each
pixel, the widths of their output bounds are compared with those of plain interval arithmetic; and the share of images
whose class is certified over the whole ball with the share that withstands an attack, which can only be larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets.algebra.bounds import ball, bounds, interval_bounds, margins
from pinets.bench.rows import Measured, Results, collect
from pinets.bench.timing import machine
from pinets.data import ImageSet, load
from pinets.layers import CCP, NCP, NCPSkip
from pinets.train.in_memory import Samples, adamw, fit

__all__ = ["FULL", "QUICK", "BoundsBench", "Case", "Row", "attack", "bench_bounds"]

GOAL = 3.0  # times tighter than interval arithmetic, on average
EPS = tuple(eps / 255 for eps in (1, 2, 4, 8))


@dataclass(frozen=True)
class Case:
    """A network of the paper, trained on MNIST's pixels from 0 to 1."""

    model: str
    order: int
    rank: int = 64

    def build(self, features: int, classes: int) -> nn.Module:
        kind = {"CCP": CCP, "NCP": NCP, "NCPSkip": NCPSkip}[self.model]
        return kind(features, classes, rank=self.rank, order=self.order)

    def __str__(self) -> str:
        return f"{self.model} of order {self.order}, rank {self.rank}"


FULL = [Case(model, order) for model in ("CCP", "NCP", "NCPSkip") for order in (3, 4)]
QUICK = [Case("CCP", 3)]


@dataclass(frozen=True)
class Row(Measured):
    """What a case came to at one radius.

    Attributes:
        case: The network.
        eps: The radius of the ball, in pixels from 0 to 1.
        samples: How many test images were looked at.
        accuracy: The share of them classified correctly.
        tighter: The width of plain intervals over ours, mean over images and outputs.
        certified: The share of images whose class is proven all over the ball.
        certified_plainly: The same with plain intervals.
        attacked: The share of images for which an attack found no other class.
    """

    case: Case
    eps: float
    samples: int
    accuracy: float
    tighter: float
    certified: float
    certified_plainly: float
    attacked: float

    def __str__(self) -> str:
        return (
            f"{self.case!s:26} eps {self.eps * 255:.0f}/255: {self.tighter:5.2f} times tighter; certified "
            f"{self.certified:.1%} (plain intervals {self.certified_plainly:.1%}), attacked {self.attacked:.1%}, "
            f"accuracy {self.accuracy:.1%}"
        )


@dataclass(frozen=True)
class BoundsBench(Results[Row]):
    """Results whose goal is one for their mean."""

    def summary(self) -> str:
        mean = sum(row.tighter for row in self.rows) / max(1, len(self.rows))
        return f"{mean:.2f} times tighter than plain intervals on average; goal {GOAL:.0f}"


def bench_bounds(
    which: Iterable[Case] = FULL,
    *,
    data_dir: str | Path | None = None,
    samples: int = 100,
    epochs: int = 4,
    radii: Iterable[float] = EPS,
    on_row: Callable[[Row], None] | None = None,
) -> BoundsBench:
    """Train every case and bound it around the first test images.

    Args:
        which: The networks.
        data_dir: Where MNIST is.
        samples: How many test images to look at.
        epochs: How long to train.
        radii: Of the balls.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    splits = load("mnist", data_dir)
    x, labels = _pixels(splits.test)

    def rows() -> Iterator[Row]:
        for case in which:
            network = train(case, splits.train, epochs)
            for eps in radii:
                yield measure(case, network, x[:samples], labels[:samples], eps)

    return BoundsBench("bounds", collect(rows(), on_row), facts, {"goal": GOAL})


def train(case: Case, digits: ImageSet, epochs: int) -> nn.Module:
    """Train a network on digits, the same one every time."""
    x, labels = _pixels(digits)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = case.build(x.shape[1], len(digits.classes))
    optimizer = adamw(network, learning_rate=3e-3, weight_decay=0.1)
    generator = torch.Generator().manual_seed(0)
    fit(
        network,
        Samples.of(x, labels),
        lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="none"),
        optimizer,
        epochs=epochs,
        batch_size=128,
        generator=generator,
        cosine=True,
    )
    return network.eval()


def measure(case: Case, network: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Row:
    """Bound and attack a network around images."""
    lower, upper = ball(x, eps, minimum=0.0, maximum=1.0)
    ours, plain = bounds(network, lower, upper), interval_bounds(network, lower, upper)
    with torch.no_grad():
        right = network(x).argmax(1) == labels
    others = F.one_hot(labels, ours.lower.shape[1]) == 0
    certified = (margins(network, lower, upper, labels) > 0)[others].reshape(len(x), -1).all(1)
    worst = plain.upper.masked_fill(~others, -torch.inf).amax(1)
    certified_plainly = plain.lower.gather(1, labels[:, None])[:, 0] > worst
    withstood = attack(network, x, labels, eps)
    if bool((certified & ~withstood).any()):
        raise AssertionError("an attack succeeded where the bounds rule it out: the bounds are not sound")
    shares = (float(mask.double().mean()) for mask in (right, certified, certified_plainly, withstood))
    accuracy, share, share_plainly, attacked = shares
    return Row(case, eps, len(x), accuracy, float((plain.width / ours.width).mean()), share, share_plainly, attacked)


def attack(network: nn.Module, x: Tensor, labels: Tensor, eps: float, *, steps: int = 40, restarts: int = 3) -> Tensor:
    """Projected gradient descent on the margin, in pixels from 0 to 1: which images keep their class."""
    generator = torch.Generator().manual_seed(0)
    withstood = torch.ones(len(x), dtype=torch.bool)
    own = F.one_hot(labels, network(x).shape[1]).bool()
    low, high = (x - eps).clamp(0, 1), (x + eps).clamp(0, 1)
    for restart in range(restarts):
        start = torch.rand(x.shape, generator=generator) if restart else torch.full_like(x, 0.5)
        point = low + (high - low) * start
        for step in range(steps + 1):
            point.requires_grad_()
            outputs = network(point)
            withstood &= outputs.argmax(1) == labels
            margin = outputs[own] - outputs.masked_fill(own, -torch.inf).amax(1)
            (gradient,) = torch.autograd.grad(margin.sum(), point)
            length = 2 * eps * (1 - step / (steps + 1))
            with torch.no_grad():
                point = torch.minimum(torch.maximum(point - length * gradient.sign(), low), high)
    return withstood


def _pixels(digits: ImageSet) -> tuple[Tensor, Tensor]:
    return digits.images.flatten(1).float() / 255, digits.labels
