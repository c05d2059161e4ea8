"""How tight are sound bounds of convolutional networks, rounding included?

Two blocks of 3x3 convolutions on an 8x8 image, or on a colour image of 32x32, with random weights. The widest of ten
outputs' bounds over a ball (``width``; ``exact`` without the rounding of single precision) is compared with the widest
range that gradient ascent finds in it (``reached``). A sound bound is at least as wide as what is reached.

Example:
  python -m benchmarks convolutions --threads 1
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.rows import Goal, Row, add_only, choose
from pinets.algebra import ball, bounds, trace
from pinets.layers import CCP, NCP
from pinets.models import create_model

__all__ = ["add_arguments", "rows"]

RADII = (1e-5, 1e-2)
_CONV = partial(nn.Conv2d, kernel_size=3, padding=1)


def _stack(kind: type[CCP] | type[NCP], channels: int, order: int) -> nn.Sequential:
    return nn.Sequential(
        kind(1, channels, rank=channels, order=order, op=_CONV),
        nn.BatchNorm2d(channels),
        kind(channels, channels, rank=channels, order=order, op=_CONV),
        nn.Flatten(),
        nn.Linear(64 * channels, 10),
    )


SMALL, COLOUR = (1, 1, 8, 8), (1, 3, 32, 32)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "CCP of order 3, 8 channels": partial(_stack, CCP, 8, 3),
    "NCP of order 2, 16 channels": partial(_stack, NCP, 16, 2),
    "NCP of order 3, 8 channels": partial(_stack, NCP, 8, 3),
    "strict_convnet of widths 4 and 8": partial(create_model, "strict_convnet", widths=(4, 8)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_only(parser)


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """Bound every network around one image, a row for each radius."""
    for name in choose(list(NETWORKS), args.only):
        torch.manual_seed(0)
        network = NETWORKS[name]().eval()
        image = torch.rand(COLOUR if "strict" in name else SMALL)
        traced = trace(network, image)
        for eps in RADII:
            lower, upper = ball(image, eps)
            width = float(bounds(traced, lower, upper).width.max())
            exact = float(bounds(traced, lower, upper, precision=None).width.max())
            reached = float(_reached(network, lower.float(), upper.float()).max())
            goal = Goal("width", at_most=0.01) if eps == RADII[0] else Goal("ratio", at_most=5)
            figures = {"width": width, "exact": exact, "reached": reached, "ratio": width / reached}
            yield Row(f"{name}, eps {eps:g}", figures, (goal,))


def _reached(network: nn.Module, low: Tensor, high: Tensor, steps: int = 40) -> Tensor:
    """The range of every output that gradient ascent finds."""
    outputs = network(low).shape[1]
    signs = torch.cat([torch.eye(outputs), -torch.eye(outputs)])
    points = ((low + high) / 2).repeat(2 * outputs, 1, 1, 1)
    for step in range(steps):
        points.requires_grad_()
        (slope,) = torch.autograd.grad((network(points) * signs).sum(), points)
        points = (points.detach() + (high - low) * (1 - step / steps) * slope.sign()).clamp(low, high)
    with torch.no_grad():
        largest, least = (network(points) * signs).sum(1).chunk(2)
    return largest + least
