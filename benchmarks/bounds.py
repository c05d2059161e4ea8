"""How tight are the sound bounds on digits, and how many answers can be certified?

CCP, NCP and NCP-Skip of order 3 and 4 are trained on MNIST. Their outputs are bounded over all images that differ from
a test image by at most eps in each pixel. tighter = width of plain intervals / width of ours, mean over images and
outputs. "certified" is the share of images whose class is proven over the whole ball, "plainly" the same with plain
intervals, "attacked" the share for which an attack finds no other class; it can only be larger.

Example:
  python -m benchmarks bounds --quick
  python -m benchmarks bounds --only "order 4" --samples 20 --data DIR
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.rows import Row, add_only, choose
from pinets.algebra import ball, bounds, interval_bounds, margins
from pinets.cli.arguments import positive
from pinets.data import ImageSet, load
from pinets.engine.in_memory import Samples, adamw, fit
from pinets.layers import CCP, NCP, NCPSkip

__all__ = ["FULL", "QUICK", "Case", "add_arguments", "attack", "measure", "rows", "summary", "train"]

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    parser.add_argument("--quick", action="store_true", help="one network, one epoch, ten images")
    add_only(parser)
    parser.add_argument("--samples", metavar="N", type=positive, help="test images (default: 100, with --quick 10)")
    parser.add_argument("--epochs", metavar="N", type=positive, help="of training (default: 4, with --quick 1)")
    parser.add_argument("--data", metavar="DIR", help="where datasets are (default: $PINETS_DATA)")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """Train every case and bound it around the first test images, one row for each radius."""
    samples, epochs = args.samples or (10 if args.quick else 100), args.epochs or (1 if args.quick else 4)
    splits = load("mnist", args.data)
    x, labels = _pixels(splits.test)
    for case in choose(QUICK if args.quick else FULL, args.only):
        network = train(case, splits.train, epochs)
        for eps in EPS:
            yield measure(case, network, x[:samples], labels[:samples], eps)


def summary(rows: Sequence[Row]) -> str:
    """The goal is for the mean over all rows."""
    mean = sum(row.figures["tighter"] for row in rows) / max(1, len(rows))
    return f"{mean:.2f} times tighter than plain intervals on average; goal {GOAL:.0f}"


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
    shares = {"certified": certified, "plainly": certified_plainly, "attacked": withstood, "accuracy": right}
    return Row(
        f"{case}, eps {eps * 255:.0f}/255",
        {"tighter": float((plain.width / ours.width).mean())}
        | {name: float(mask.double().mean()) for name, mask in shares.items()},
        details={"samples": len(x)},
    )


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
