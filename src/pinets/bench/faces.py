"""Is a gallery searched as fast as matrices are multiplied, and what does the second order cost an embedding?

- Search: probes against a gallery, with the best of every probe and the exact tail of all scores, beside the same
  matrix products alone, large square products (what the machine can do), and faiss's flat index for the best alone.
- Latency: the Π-net beside its baseline, same images.

All that is compared runs in turn in one process.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pinets._memory import keep_memory
from pinets.bench.floor import convolutions_alone
from pinets.bench.memory import peak_bytes
from pinets.bench.rows import Measured, Results, collect
from pinets.bench.timing import interleave, machine, medians
from pinets.metrics.faces import search
from pinets.metrics.faces.blocks import BLOCK
from pinets.models import create_model

__all__ = ["FULL", "QUICK", "SMALL", "LatencyCase", "Row", "SearchCase", "bench_faces"]

_SQUARE = 2048  # of the product that measures the machine


@dataclass(frozen=True)
class SearchCase:
    """Probes against a gallery.

    Attributes:
        probes: How many; MegaFace has 3,530.
        gallery: Rows to search.
        width: Of the embeddings.
        k: How many of the best to find.
        far: The rate of false accepts whose tail is counted exactly.
    """

    probes: int = 3530
    gallery: int = 1_000_000
    width: int = 512
    k: int = 10
    far: float = 1e-6

    @property
    def tail(self) -> int:
        return int(self.probes * self.gallery * self.far) + 1

    def __str__(self) -> str:
        return f"search, {self.probes:,} probes, {self.gallery:,} x {self.width} gallery"


@dataclass(frozen=True)
class LatencyCase:
    """A Π-net against its baseline, embedding some faces."""

    batch: int
    name: str = "prodpoly_iresnet50"
    baseline: str = "iresnet50"
    size: int = 112

    def __str__(self) -> str:
        return f"latency of {self.name}, batch {self.batch}"


_LATENCY = [LatencyCase(1), LatencyCase(16)]
FULL: list[SearchCase | LatencyCase] = [SearchCase(), *_LATENCY]
SMALL: list[SearchCase | LatencyCase] = [SearchCase(gallery=100_000), *_LATENCY]  # a gallery of 205 MB
QUICK: list[SearchCase | LatencyCase] = [SearchCase(gallery=20_000), *_LATENCY]


@dataclass(frozen=True)
class Row(Measured):
    """One comparison: a value, what it is measured against, and the goal, at least or at most."""

    case: SearchCase | LatencyCase
    what: str
    ratio: float
    goal: float
    at_least: bool
    details: dict[str, float]

    @property
    def reached(self) -> bool:
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"case": str(self.case), "reached": self.reached}

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.4g}" for name, value in self.details.items())
        side = "at least" if self.at_least else "at most"
        missed = "" if self.reached else ", missed"
        return f"{self.case}: {self.what} {self.ratio:.3f} (goal {side} {self.goal:g}{missed}); {told}"


def bench_faces(
    which: Sequence[SearchCase | LatencyCase] = SMALL,
    *,
    seconds: float = 60.0,
    on_row: Callable[[Row], None] | None = None,
) -> Results[Row]:
    """Measure every case.

    Args:
        which: The cases, as in :data:`FULL`, :data:`SMALL` and :data:`QUICK`.
        seconds: How long to time each; a few rounds run in any case.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    keep_memory()
    rows = (
        row
        for case in which
        for row in (measure_search(case, seconds) if isinstance(case, SearchCase) else [measure_latency(case, seconds)])
    )
    return Results("faces", collect(rows, on_row), facts)


@torch.inference_mode()
def measure_search(case: SearchCase, seconds: float, least: int = 3) -> list[Row]:
    """Time the search, the products alone, and where faiss is installed, its flat index."""
    generator = torch.Generator().manual_seed(0)
    probes = nn.functional.normalize(torch.randn(case.probes, case.width, generator=generator))
    gallery = nn.functional.normalize(torch.randn(case.gallery, case.width, generator=generator))
    square, out = torch.randn(_SQUARE, _SQUARE), torch.empty(_SQUARE, _SQUARE)
    squares = (square.numpy(), square.numpy(), out.numpy())
    calls: dict[str, Callable[[], object]] = {
        "search": lambda: search(probes, gallery, k=case.k, tail=case.tail),
        "best": lambda: search(probes, gallery, k=case.k),
        "products": lambda: _products(probes, gallery),
        "square": lambda: torch.mm(square, square, out=out),
        "numpy's square": lambda: np.matmul(*squares),
    }
    if importlib.util.find_spec("faiss") is not None:
        calls["faiss"] = _faiss(probes, gallery, case.k)
    median = medians(interleave(calls, seconds=seconds, warmup=1, least=least))
    work = 2.0 * case.probes * case.gallery * case.width
    # the machine's rate: whichever product is faster, or a slow one would make the search look good
    speeds = {"products": work / median["products"]} | {
        name: 2.0 * _SQUARE**3 / median[name] for name in ("square", "numpy's square")
    }
    details = {"search s": median["search"], **{f"{name} GFLOP/s": speed / 1e9 for name, speed in speeds.items()}}
    rows = [Row(case, "rate of matrix products", work / median["search"] / max(speeds.values()), 0.80, True, details)]
    beyond = _peak_by_one_thread(calls["search"], alive=[gallery]) - gallery.nbytes
    rows.append(Row(case, "memory beyond the gallery, GB", beyond / 1e9, 1.0, False, {}))
    if "faiss" in median:
        details = {"best s": median["best"], "faiss s": median["faiss"]}
        rows.append(Row(case, "time relative to faiss", median["best"] / median["faiss"], 1.0, False, details))
    return rows


def _peak_by_one_thread(call: Callable[[], object], alive: list[Tensor]) -> int:
    """Several threads share the probes, so that together they need as much; but only one can be watched."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return peak_bytes(call, alive=alive)
    finally:
        torch.set_num_threads(threads)


def _products(probes: Tensor, gallery: Tensor) -> None:
    """The products of the search, and nothing else."""
    scores = torch.empty(len(probes) * min(BLOCK, len(gallery)))
    for part in gallery.split(BLOCK):
        torch.mm(probes, part.t(), out=scores[: len(probes) * len(part)].view(len(probes), len(part)))


def _faiss(probes: Tensor, gallery: Tensor, k: int) -> Callable[[], object]:
    faiss: Any = importlib.import_module("faiss")
    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlatIP(gallery.shape[1])
    index.add(gallery.numpy())
    return lambda: index.search(probes.numpy(), k)


@torch.inference_mode()
def measure_latency(case: LatencyCase, seconds: float, least: int = 5) -> Row:
    """Time both networks, and what the Π-net cannot be faster than: with nothing of its products but convolutions.

    The batch norms of the products, which start at zero, are set to one.
    """
    images = torch.randn(case.batch, 3, case.size, case.size).to(memory_format=torch.channels_last)
    networks = {name: create_model(name).eval() for name in (case.baseline, case.name)}
    networks["floor"] = convolutions_alone(networks[case.name])
    for network in networks.values():
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
    calls = {name: (lambda network=network: network(images)) for name, network in networks.items()}
    median = medians(interleave(calls, seconds=seconds, least=least))
    details = {f"{name} ms": 1e3 * median[name] / case.batch for name in (case.baseline, case.name)}
    details["with nothing of its products but convolutions"] = median["floor"] / median[case.baseline]
    return Row(case, "time relative to the baseline", median[case.name] / median[case.baseline], 1.045, False, details)
