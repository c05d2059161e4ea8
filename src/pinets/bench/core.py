"""How much of the speed of the bare matrix products do the models reach?

A model of the paper cannot avoid its matrix products, one or more per order. Everything else it does (Hadamard
products, sums, Python) is overhead. The benchmark runs each model in turn with its own products alone, same shapes,
same weights, same gradients, and reports ``rate = time of the products / time of the model``.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from pinets._memory import keep_memory
from pinets._nearest import did_you_mean
from pinets.bench.rows import Measured, Results, collect
from pinets.bench.timing import interleave, machine, medians
from pinets.layers import CCP, NCP, NCPSkip
from pinets.polynomial import Polynomial

__all__ = ["FULL", "GOALS", "QUICK", "Case", "CoreBench", "Row", "bench_core", "cases"]

MODELS: dict[str, type[CCP] | type[NCP]] = {"CCP": CCP, "NCP": NCP, "NCPSkip": NCPSkip}
OUTPUTS = 10

# what is measured: the values of every variable
FULL: dict[str, tuple[str | int, ...]] = {
    "model": tuple(MODELS),
    "d": (128, 784, 3072),
    "k": (64, 256, 1024),
    "N": (2, 4, 8),
    "batch": (64, 256, 1024),
}
QUICK: dict[str, tuple[str | int, ...]] = {**FULL, "d": (128, 784), "k": (64, 256), "batch": (64, 256)}

# the rate to reach where the products dominate
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


def cases(grid: dict[str, tuple[str | int, ...]] = FULL, only: Sequence[tuple[str, str | int]] = ()) -> list[Case]:
    """The cases of a grid, of those variables named in ``only`` the given values alone.

    Example:
        >>> [str(case) for case in cases(QUICK, only=[("model", "CCP"), ("d", 784), ("k", 64), ("batch", 64)])]
        ['CCP d=784 k=64 N=2 batch=64', 'CCP d=784 k=64 N=4 batch=64', 'CCP d=784 k=64 N=8 batch=64']
    """
    chosen = dict(grid)
    for name in dict(only):
        if name not in grid:
            raise ValueError(f"unknown variable {name!r}{did_you_mean(name, grid)}")
        chosen[name] = tuple(value for key, value in only if key == name)
    for model in chosen["model"]:
        if model not in MODELS:
            raise ValueError(f"unknown model {model!r}{did_you_mean(str(model), MODELS)}")
    return [Case(**dict(zip(chosen, values, strict=True))) for values in itertools.product(*chosen.values())]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row(Measured):
    """The median seconds of a model and of its bare products, forward (without gradients) or with the backward pass."""

    case: Case
    run: str
    seconds: float
    bare_seconds: float
    rounds: int

    @property
    def rate(self) -> float:
        return self.bare_seconds / self.seconds

    @property
    def reached(self) -> bool | None:
        return self.rate >= GOALS[self.run] if self.case.products_dominate else None

    def to_json(self) -> dict[str, Any]:
        told = {"seconds": self.seconds, "bare_seconds": self.bare_seconds, "rounds": self.rounds}
        return {**asdict(self.case), "run": self.run, "rate": self.rate} | told


@dataclass(frozen=True)
class CoreBench(Results[Row]):
    """Results, and the cases there was no time for."""

    skipped: list[Case] = field(default_factory=list)

    def reached(self, run: str) -> tuple[int, int]:
        """In how many cases, of those where the products dominate, the rate reaches its goal."""
        wanted = [row.reached for row in self.rows if row.run == run and row.reached is not None]
        return sum(wanted), len(wanted)

    def growth(self, run: str) -> list[float]:
        """What a further order costs at high orders, relative to low orders: 1 is linear, more is worse.

        One figure for each model and size measured at three orders or more, where the products dominate.
        """
        by_size: dict[tuple[object, ...], dict[int, float]] = {}
        for row in self.rows:
            case = row.case
            if row.run == run and case.products_dominate:
                by_size.setdefault((case.model, case.d, case.k, case.batch), {})[case.N] = row.seconds
        found = []
        for times in by_size.values():
            if len(times) >= 3:
                low, middle, high = (sorted(times)[i] for i in (0, -2, -1))
                early = (times[middle] - times[low]) / (middle - low)
                late = (times[high] - times[middle]) / (high - middle)
                found.append(late / early)
        return found

    def summary(self) -> str:
        lines = []
        for run, goal in GOALS.items():
            reached, total = self.reached(run)
            if total:
                rates = [row.rate for row in self.rows if row.run == run and row.case.products_dominate]
                lines.append(
                    f"{run}: {reached} of {total} cases with k >= 256 and batch >= 256 reach {goal:.2f} of the bare "
                    f"products (median {statistics.median(rates):.2f}, lowest {min(rates):.2f})"
                )
            growth = self.growth(run)
            if growth:
                lines.append(
                    f"{run}: at high orders a further order costs {statistics.median(growth):.2f} times what it costs "
                    f"at low orders (median of {len(growth)}; 1 is linear growth)"
                )
        if self.skipped:
            lines.append(f"not measured for lack of time: {len(self.skipped)} cases, from {self.skipped[0]} on")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"not_measured": [asdict(case) for case in self.skipped]}


def bench_core(
    which: Sequence[Case],
    *,
    seconds: float = 900.0,
    on_start: Callable[[Case, float], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> CoreBench:
    """Time every case against its bare products.

    Args:
        which: The cases, from :func:`cases`.
        seconds: Start no further case after this time. It is shared among the cases by their work.
        on_start: Called before a case with the case and the seconds left.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    keep_memory()
    rows = collect(_measured(which, seconds, on_start), on_row)
    done = {row.case for row in rows}
    return CoreBench("core", rows, facts, {"goals": GOALS}, skipped=[case for case in which if case not in done])


def _measured(which: Sequence[Case], seconds: float, on_start: Callable[[Case, float], None] | None) -> Iterator[Row]:
    end = time.perf_counter() + seconds
    work_left = sum(_work(case) for case in which)
    for case in which:
        left = end - time.perf_counter()
        if left <= 0:
            return
        if on_start is not None:
            on_start(case, left)
        yield from measure(case, seconds=left * _work(case) / work_left)
        work_left -= _work(case)


def measure(case: Case, *, seconds: float, least: int = 5) -> list[Row]:
    """Time one case: the model and its bare products in turn, each forward, and forward and backward."""
    model = MODELS[case.model](case.d, OUTPUTS, rank=case.k, order=case.N)
    z = torch.randn(case.batch, case.d)
    weights = list(model.parameters())
    model_gradient = torch.randn(case.batch, OUTPUTS)
    state = torch.randn(case.batch, case.k, requires_grad=True)
    bare_gradients = [torch.randn_like(output) for output in bare_products(model, z, state)]

    def forward(call: Callable[[], object]) -> Callable[[], object]:
        return torch.no_grad()(call)

    times = interleave(
        {
            "forward": forward(lambda: model(z)),
            "bare forward": forward(lambda: bare_products(model, z, state)),
            "forward+backward": lambda: torch.autograd.grad(model(z), weights, model_gradient),
            "bare forward+backward": lambda: torch.autograd.grad(
                bare_products(model, z, state), [*weights, state], bare_gradients, allow_unused=True
            ),
        },
        seconds=seconds,
        least=least,
    )
    median = medians(times)
    return [Row(case, run, median[run], median[f"bare {run}"], rounds=len(times[run])) for run in GOALS]


def bare_products(model: Polynomial, z: Tensor, state: Tensor) -> list[Tensor]:
    """The matrix products of a model and nothing else; ``state`` stands for what ``carry`` is applied to first.

    In training, those on the input need the gradient of their weights, those on the state also that of the state; so
    those on the state are chained, as they are in the model.
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


def _work(case: Case) -> float:
    """What a case's share of the time goes by: its products, and enough for many rounds however small it is."""
    return case.multiplications + 5e8
