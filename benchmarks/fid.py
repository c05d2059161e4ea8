"""How many images a second does the Inception network of FID take, and what does each speed-up bring?

The same images run through the network in several ways, in turn: in a plain loop, in batches, with its batch norms
folded into the convolutions, and so on. The weights are random: the time does not depend on them, and nothing has to be
downloaded.

Example:
  python -m benchmarks fid --quick
  python -m benchmarks fid --compile --images 128 --batch 64 --seconds 300
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from benchmarks.measuring import interleave, medians
from benchmarks.rows import Row, add_timing, choose
from pinets.cli.arguments import positive
from pinets.tasks.generation.metrics.inception import Inception, fold_batch_norm

__all__ = ["FULL", "PLAIN", "QUICK", "add_arguments", "measure", "rows"]

PLAIN = "plain loop, one image at a time"
BATCHED = "batches"
FOLDED = "batches, batch norm folded"
CHANNELS_LAST = "batches, batch norm folded, channels last"  # what pinets.tasks.generation.metrics does
COMPILED = "batches, batch norm folded, channels last, compiled"
BFLOAT16 = "batches, batch norm folded, channels last, bfloat16"

QUICK = (PLAIN, BATCHED, FOLDED, CHANNELS_LAST)
FULL = (*QUICK, BFLOAT16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=240.0, quick="few images, no bfloat16")
    parser.add_argument("--images", type=positive, help="in a round (default: 32, with --quick 8)")
    parser.add_argument("--batch", type=positive, default=32, help="images at a time (default: %(default)s)")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each way, when all are measured."""
    ways = (*(QUICK if args.quick else FULL), *([COMPILED] if args.compile else []))
    images = args.images or (8 if args.quick else 32)
    yield from measure(choose(ways, args.only), images=images, batch=args.batch, seconds=args.seconds)


def measure(
    ways: Sequence[str],
    *,
    images: int,
    batch: int,
    size: int = 32,
    seconds: float,
    least: int = 3,
    num_features: int = 2048,
) -> list[Row]:
    """Time the same images through the network in several ways, in turn.

    Args:
        ways: Which; :data:`PLAIN`, with which the others are compared, is always among them.
        images: How many there are in a round.
        batch: Size of the batches.
        size: Height and width of the images before they are resized.
        seconds: Start no further round after this time.
        least: Rounds that run in any case; a way that takes more than twice the time of the plain loop runs only once.
        num_features: Fewer for an earlier layer, see :class:`Inception`.
    """
    network = _random(num_features)
    x = torch.randint(0, 256, (images, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    calls = {way: _call(way, network, x, batch) for way in dict.fromkeys((PLAIN, *ways))}
    plain = calls[PLAIN]()
    deviations = {way: float((call() - plain).norm() / plain.norm()) for way, call in calls.items()}
    times = medians(interleave(calls, seconds=0, warmup=0, least=1, most=1))
    worthwhile = {way: call for way, call in calls.items() if times[way] <= 2 * times[PLAIN]}
    times |= medians(interleave(worthwhile, seconds=seconds, warmup=0, least=least))
    return [
        Row(
            way,
            {"images/s": images / time, "speed-up": times[PLAIN] / time, "features differ by": deviations[way]},
            details={"images": images, "batch": batch},
        )
        for way, time in times.items()
    ]


def _random(num_features: int) -> Inception:
    network = Inception(num_features).eval().requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for module in network.modules():
            if isinstance(module, nn.Conv2d):  # values keep their size: tiny ones would take another time
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


def _call(way: str, network: Inception, x: Tensor, batch: int) -> Callable[[], Tensor]:
    network = copy.deepcopy(network)
    if way not in (PLAIN, BATCHED):
        fold_batch_norm(network)
    if way in (CHANNELS_LAST, COMPILED, BFLOAT16):
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if way == BFLOAT16:
        network.to(torch.bfloat16)
    run = torch.compile(network) if way == COMPILED else network
    parts = x.split(1 if way == PLAIN else batch)
    return torch.no_grad()(lambda: torch.cat([run(part) for part in parts]).float())
