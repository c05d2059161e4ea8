"""How much of the speed of the bare matrix products do the core models reach?

CCP, NCP and NCP-Skip cannot avoid their matrix products, one or more per order. Everything else they do (Hadamard
products, sums, Python) is overhead. Each model runs in turn with its own products alone: same shapes, same weights,
same gradients. rate = time of the products / time of the model, both eager or both compiled; "forward" is without
gradients.

Example:
  python -m benchmarks core --quick
  python -m benchmarks core --compile --only "CCP d=784 k=256"
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from benchmarks.measuring import interleave, medians
from benchmarks.rows import Goal, Row, add_timing, choose
from pinets.layers import CCP, NCP, NCPSkip
from pinets.polynomial import Polynomial

__all__ = ["FULL", "GOALS", "QUICK", "Case", "add_arguments", "bare_products", "growth", "measure", "rows", "summary"]

MODELS: dict[str, type[CCP] | type[NCP]] = {"CCP": CCP, "NCP": NCP, "NCPSkip": NCPSkip}
OUTPUTS = 10

# the rate that a compiled model should reach where the products dominate
GOALS = {"forward": 0.85, "forward+backward": 0.80}


@dataclass(frozen=True)
class Case:
    """One model at one size: ``d`` inputs, rank ``k``, order ``N``."""

    model: str
    d: int
    k: int
    N: int
    batch: int

    @property
    def products_dominate(self) -> bool:
        return self.k >= 256 and self.batch >= 256

    @property
    def multiplications(self) -> int:
        """Of the matrix products, forward."""
        square = {"CCP": 0, "NCP": 1, "NCPSkip": 2}[self.model]  # matrices on the state at every step
        return self.batch * (self.N * self.d * self.k + square * (self.N - 1) * self.k**2 + self.k * OUTPUTS)

    def __str__(self) -> str:
        return f"{self.model} d={self.d} k={self.k} N={self.N} batch={self.batch}"


def _grid(d: Sequence[int], k: Sequence[int], batch: Sequence[int]) -> list[Case]:
    return [Case(*values) for values in itertools.product(MODELS, d, k, (2, 4, 8), batch)]


FULL = _grid((128, 784, 3072), (64, 256, 1024), (64, 256, 1024))
QUICK = _grid((128, 784), (64, 256), (64, 256))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=3.0, quick="small sizes only, and a second for each")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """Two rows for each case."""
    for case in choose(QUICK if args.quick else FULL, args.only):
        yield from measure(case, seconds=min(args.seconds, 1.0) if args.quick else args.seconds, compiled=args.compile)


def measure(case: Case, *, seconds: float, compiled: bool = False, least: int = 5) -> list[Row]:
    """Time the model and its bare products in turn, each forward, and forward and backward."""
    torch.compiler.reset()  # or the models of earlier cases count as recompilations
    model = MODELS[case.model](case.d, OUTPUTS, rank=case.k, order=case.N)
    z = torch.randn(case.batch, case.d)
    state = torch.randn(case.batch, case.k, requires_grad=True)
    calls = _calls("", model, lambda: bare_products(model, z, state), z, state)
    if compiled:
        bare = torch.compile(bare_products, fullgraph=True)
        run = torch.compile(model, fullgraph=True)
        calls |= _calls("compiled ", run, lambda: bare(model, z, state), z, state)
    times = interleave(calls, seconds=seconds, least=least)
    return [_row(case, kind, medians(times), compiled, len(times[kind])) for kind in GOALS]


def _calls(
    prefix: str, model: Callable[[Tensor], Tensor], bare: Callable[[], list[Tensor]], z: Tensor, state: Tensor
) -> dict[str, Callable[[], object]]:
    weights = list(model.parameters())  # type: ignore[attr-defined]
    model_gradient = torch.randn(len(z), OUTPUTS)
    bare_gradients = [torch.randn_like(output) for output in bare()]
    return {
        f"{prefix}forward": torch.no_grad()(lambda: model(z)),
        f"{prefix}bare forward": torch.no_grad()(bare),
        f"{prefix}forward+backward": lambda: torch.autograd.grad(model(z), weights, model_gradient),
        f"{prefix}bare forward+backward": lambda: torch.autograd.grad(
            bare(), [*weights, state], bare_gradients, allow_unused=True
        ),
    }


def _row(case: Case, kind: str, median: dict[str, float], compiled: bool, rounds: int) -> Row:
    figures: dict[str, float] = {}
    for prefix in ("", "compiled ") if compiled else ("",):
        model, bare = median[f"{prefix}{kind}"], median[f"{prefix}bare {kind}"]
        name = prefix or "eager "
        figures |= {f"{name}ms": model * 1e3, f"{name}bare ms": bare * 1e3, f"{name}rate": bare / model}
    goals = (Goal("compiled rate", at_least=GOALS[kind]),) if compiled and case.products_dominate else ()
    return Row(f"{case}, {kind}", figures, goals, {**asdict(case), "kind": kind, "rounds": rounds})


def bare_products(model: Polynomial, z: Tensor, state: Tensor) -> list[Tensor]:
    """The matrix products of a model and nothing else; ``state`` stands for what ``carry`` is applied to first.

    In training, products on the input need the gradient of their weights, and products on the state also that of the
    state; so those on the state are chained, as they are in the model.
    """
    outputs = []
    x, carried = model.start(z), state
    for step in model.steps:
        outputs.append(step.gate(z))
        x = step.body(x)
        for operator in step.carry.values():
            carried = operator(carried)
    if carried is not state:
        outputs.append(carried)
    outputs.append(model.head(x))
    return outputs


def summary(rows: Sequence[Row]) -> str:
    """The rates where the products dominate, and whether time grows linearly with the order."""
    lines = []
    for kind, goal in GOALS.items():
        large = [row for row in rows if row.details["kind"] == kind and min(_size(row)) >= 256]
        for name in ("eager", "compiled"):
            rates = [row.figures[f"{name} rate"] for row in large if f"{name} rate" in row.figures]
            if rates:
                lines.append(
                    f"{kind}, {name}: {sum(rate >= goal for rate in rates)} of {len(rates)} cases with k >= 256 and "
                    f"batch >= 256 reach {goal:.2f} of the bare products (median {statistics.median(rates):.2f}, "
                    f"lowest {min(rates):.2f})"
                )
        if grown := growth(large):
            lines.append(
                f"{kind}: at high orders a further order costs {statistics.median(grown):.2f} times what it costs at "
                f"low orders (median of {len(grown)}; 1 is linear growth)"
            )
    return "\n".join(lines)


def _size(row: Row) -> tuple[int, int]:
    return row.details["k"], row.details["batch"]


def growth(rows: Sequence[Row]) -> list[float]:
    """The cost of a further order at high orders relative to low orders: 1 is linear growth.

    One figure for each model and size measured at three orders or more.
    """
    by_size: dict[tuple[object, ...], dict[int, float]] = {}
    for row in rows:
        size = tuple(row.details[name] for name in ("model", "d", "k", "batch", "kind"))
        by_size.setdefault(size, {})[row.details["N"]] = row.figures["eager ms"]
    found = []
    for times in by_size.values():
        if len(times) >= 3:
            low, middle, high = (sorted(times)[i] for i in (0, -2, -1))
            early = (times[middle] - times[low]) / (middle - low)
            late = (times[high] - times[middle]) / (high - middle)
            found.append(late / early)
    return found
