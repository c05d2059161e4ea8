"""How many images a second the Inception network takes, in the plain loop and in the ways we speed it up.

The weights are random: the time does not depend on them, and nothing has to be downloaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pinets.bench.rows import Measured, Results
from pinets.bench.timing import interleave, machine, medians
from pinets.metrics.inception import Inception, fold_batch_norm

__all__ = ["FULL", "PLAIN", "QUICK", "Row", "bench_fid"]

PLAIN = "plain loop, one image at a time"
BATCHED = "batches"
FOLDED = "batches, batch norm folded in"
CHANNELS_LAST = "batches, batch norm folded in, channels last"  # what pinets.metrics.generation does
COMPILED = "batches, batch norm folded in, channels last, compiled"
BFLOAT16 = "batches, batch norm folded in, channels last, bfloat16"

QUICK = (PLAIN, BATCHED, FOLDED, CHANNELS_LAST)
FULL = (*QUICK, COMPILED, BFLOAT16)


@dataclass(frozen=True)
class Row(Measured):
    """One way to run the network.

    Attributes:
        way: Which.
        images_per_second: From the median time.
        speedup: Over the plain loop.
        deviation: Of the features from those of the plain loop, relative.
    """

    way: str
    images_per_second: float
    speedup: float
    deviation: float

    def __str__(self) -> str:
        return (
            f"{self.way:60}{self.images_per_second:8.2f} images/s  {self.speedup:5.2f} of the plain loop  "
            f"features differ by {self.deviation:.1e}"
        )


def bench_fid(
    ways: Sequence[str] = QUICK,
    *,
    images: int = 32,
    batch: int = 32,
    size: int = 32,
    seconds: float = 60.0,
    rounds: int = 3,
    num_features: int = 2048,
) -> Results[Row]:
    """Time the same images through the network in several ways, in turn.

    Args:
        ways: Which; :data:`PLAIN`, against which the others are compared, is always among them.
        images: How many there are in a round.
        batch: Of the ways with batches.
        size: Height and width of the images before they are resized.
        seconds: Start no further round after this time.
        rounds: That run in any case; but a way that takes more than twice the time of the plain loop runs only once.
        num_features: Fewer for an earlier layer, see :class:`Inception`.
    """
    facts = machine()
    network = _random(num_features)
    x = torch.randint(0, 256, (images, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    calls = {way: _call(way, network, x, batch) for way in dict.fromkeys((PLAIN, *ways))}
    plain = calls[PLAIN]()
    deviations = {way: float((call() - plain).norm() / plain.norm()) for way, call in calls.items()}
    times = medians(interleave(calls, seconds=0, warmup=0, least=1, most=1))
    worthwhile = {way: call for way, call in calls.items() if times[way] <= 2 * times[PLAIN]}
    times |= medians(interleave(worthwhile, seconds=seconds, warmup=0, least=rounds))
    rows = [Row(way, images / time, times[PLAIN] / time, deviations[way]) for way, time in times.items()]
    return Results("fid", rows, facts, {"images": images, "batch": batch})


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
