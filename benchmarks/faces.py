"""Is a gallery searched as fast as by faiss, and what does the second order cost an embedding?

Search: 3,530 probes against a synthetic gallery. "best s" is the time to find the best of every probe, "search s" with
the exact tail of all scores as well; beside them faiss's flat index (where it is installed), which finds the best only,
the same matrix products alone, and large square products, which measure the machine.

Latency: Prodpoly-IR-ResNet50 beside IR-ResNet50, same images. /baseline = time of the Π-net / time of the baseline, and
/floor the same for its floor: its blocks, and of their products only the convolutions.

Example:
  python -m benchmarks faces --quick
  python -m benchmarks faces --gallery 1000000 --only search --seconds 300
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.floor import convolutions_alone
from benchmarks.measuring import interleave, medians, peak_bytes
from benchmarks.rows import Goal, Row, add_timing, choose
from pinets.cli.arguments import positive
from pinets.models import create_model
from pinets.tasks.faces.metrics import search
from pinets.tasks.faces.metrics.gallery import BLOCK

__all__ = ["FULL", "QUICK", "LatencyCase", "SearchCase", "add_arguments", "measure_latency", "measure_search", "rows"]

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
    gallery: int = 100_000
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
QUICK: list[SearchCase | LatencyCase] = [SearchCase(gallery=20_000), *_LATENCY]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=60.0, quick="a gallery of 20,000")
    parser.add_argument("--gallery", type=positive, metavar="N", help="rows of the gallery (default: 100,000)")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each case."""
    cases = QUICK if args.quick else FULL
    if args.gallery is not None:
        cases = [replace(case, gallery=args.gallery) if isinstance(case, SearchCase) else case for case in cases]
    for case in choose(cases, args.only):
        if isinstance(case, SearchCase):
            yield measure_search(case, seconds=args.seconds)
        else:
            yield measure_latency(case, seconds=args.seconds, compiled=args.compile)


@torch.inference_mode()
def measure_search(case: SearchCase, *, seconds: float, least: int = 3) -> Row:
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
    # the machine's rate is that of the fastest product: a slow one would make the search look good
    speeds = {"products": work / median["products"]}
    speeds |= {name: 2.0 * _SQUARE**3 / median[name] for name in ("square", "numpy's square")}
    beyond = _peak_by_one_thread(calls["search"], alive=[gallery]) - gallery.nbytes
    figures = {
        "best s": median["best"],
        "search s": median["search"],
        "search/products": median["search"] / median["products"],
        "rate of products": work / median["search"] / max(speeds.values()),
        "GB beyond gallery": beyond / 1e9,
    }
    goals = [Goal("rate of products", at_least=0.80), Goal("GB beyond gallery", at_most=1.0)]
    if "faiss" in median:
        figures |= {"faiss s": median["faiss"], "best/faiss": median["best"] / median["faiss"]}
        goals.append(Goal("best/faiss", at_most=1.1))
    details = {"seconds": median, "GFLOP/s": {name: speed / 1e9 for name, speed in speeds.items()}}
    return Row(str(case), figures, tuple(goals), details)


def _peak_by_one_thread(call: Callable[[], object], alive: list[Tensor]) -> int:
    """Several threads share the probes, so that together they need as much, but only one can be watched."""
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


@torch.no_grad()
def measure_latency(case: LatencyCase, *, seconds: float, compiled: bool = False, least: int = 5) -> Row:
    """Time both networks and the floor. The batch norms of the products, which start at zero, are set to one."""
    torch.compiler.reset()  # or the networks of earlier cases count as recompilations
    images = torch.randn(case.batch, 3, case.size, case.size).to(memory_format=torch.channels_last)
    ours = create_model(case.name)
    networks = {"baseline": create_model(case.baseline), "ours": ours, "floor": convolutions_alone(ours)}
    calls: dict[str, Callable[[], object]] = {}
    for name, network in networks.items():
        network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
        calls[f"eager {name}"] = partial(network, images)
        if compiled:
            calls[f"compiled {name}"] = partial(torch.compile(network, fullgraph=True), images)
    median, figures = medians(interleave(calls, seconds=seconds, least=least)), {}
    for way in ("eager", "compiled") if compiled else ("eager",):
        taken = median[f"{way} ours"]
        figures[f"{way} ms"] = 1e3 * taken / case.batch
        figures[f"{way}/baseline"] = taken / median[f"{way} baseline"]
        figures[f"{way}/floor"] = taken / median[f"{way} floor"]
    return Row(str(case), figures, details={"seconds": median})
