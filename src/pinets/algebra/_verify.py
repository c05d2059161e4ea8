"""Decide whether a classifier gives one class all over a box: a proof, a counterexample, or what is left open."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from pinets._progress import Progress
from pinets.algebra.counterexamples import Evaluate, find_counterexample, least_margin
from pinets.algebra.domains.interval import Interval
from pinets.algebra.enclosure import Problem, boxes_of, check_labels, own_type
from pinets.algebra.shor import Quadratic, least_value
from pinets.algebra.traced import Traced, trace
from pinets.algebra.verdicts import Status, Verdict, open_journal

__all__ = ["Verdict", "verify"]


def verify(
    model: nn.Module | Traced,
    lower: Tensor,
    upper: Tensor,
    labels: Tensor | Sequence[int],
    *,
    seconds: float = 10.0,
    workers: int = 1,
    path: str | Path | None = None,
    progress: bool = False,
) -> list[Verdict]:
    """Decide for every box whether the network gives it one class all over.

    First the margins over the other classes are bounded by linear functions. If one may be negative, an attack looks
    for a counterexample; what it finds is checked by the network itself, in its own precision. Then the margins are
    bounded by quadratic functions (see :mod:`pinets.algebra.shor`). While some margin may be negative and there is
    time, the box is halved along the input that the bound suggests.

    A proof holds for the network evaluated in its own precision, ``float32`` or ``float64``, by any program that sums
    products in any order, with or without fused multiply-add: eager, compiled or exported. It does not hold for
    arithmetic of lower precision (TF32, bfloat16) or for Winograd convolutions.

    Args:
        model: A polynomial classifier in evaluation mode, with one row of outputs for each input.
        lower: The least inputs, one box in each row.
        upper: The largest inputs.
        labels: The class that each box should have.
        seconds: Computing time for each box, at most; a bound that has begun is finished.
        workers: Boxes to work on at a time, each in a thread.
        path: A file of JSON lines, one for each box, written as soon as it is decided. Boxes that are in it already
            are not decided again.
        progress: Whether to show it.

    Returns:
        A verdict for each box.

    Example:
        >>> from pinets import PowerSum
        >>> from pinets.algebra import ball
        >>> model = nn.Sequential(PowerSum(2), nn.Linear(1, 2))  # x + x**2 against a constant
        >>> with torch.no_grad():
        ...     _ = model[1].weight.copy_(torch.tensor([[1.0], [0.0]])), model[1].bias.copy_(torch.tensor([0.0, -0.3]))
        >>> verify(model, *ball(torch.zeros(1, 1), 1.0), [0])[0].status  # x + x**2 is at least -1/4
        'proven'
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1, got {workers!r}")
    traced = model if isinstance(model, Traced) else trace(model, lower[:1].to(own_type(model, torch.float32)))
    dtype = traced.example[0].dtype
    given = boxes_of(lower, upper, None)
    problem = Problem.of(traced, boxes_of(lower, upper, dtype), dtype)
    wanted = check_labels(problem.outputs, labels, len(lower)).tolist()
    evaluate = traced.evaluator()

    def decide(row: int) -> Verdict:
        return _Search(problem, lambda x: evaluate(x)[0], dtype, given[row : row + 1], wanted[row]).run(seconds)

    known, write = open_journal(path, _key(traced, given, wanted), traced.example[0])
    todo = [row for row in range(len(lower)) if row not in known]
    bar = Progress("verify", len(lower), len(known), unit="box", every_seconds=30.0) if progress else nullcontext()
    with bar:
        for row, verdict in zip(todo, _map(decide, todo, workers), strict=True):
            known[row] = verdict
            write(row, verdict)
            if isinstance(bar, Progress):
                done = [found.status for found in known.values()]
                bar.advance({status: done.count(status) for status in ("proven", "refuted", "open")})
    return [known[row] for row in range(len(lower))]


class _Search:
    """Branch and bound for one box."""

    def __init__(self, problem: Problem, evaluate: Evaluate, dtype: torch.dtype, box: Interval, label: int) -> None:
        self.problem, self.evaluate, self.dtype, self.label = problem, evaluate, dtype, label
        self.box = box  # counterexamples are in it; inputs that are rounded may be outside by as much
        self.generator = torch.Generator().manual_seed(0)
        self.bounded = 0

    def run(self, seconds: float) -> Verdict:
        start = time.thread_time()

        def verdict(status: Status, margin: float, point: Tensor | None = None) -> Verdict:
            return Verdict(status, margin, time.thread_time() - start, self.bounded, point)

        def refuted(point: Tensor) -> Verdict:
            return verdict("refuted", least_margin(self.evaluate, point, self.label), point[0])

        classes = [other for other in range(self.problem.outputs[-1]) if other != self.label]
        if not classes:
            return verdict("proven", math.inf)
        whole = self._linear(boxes_of(self.box.lower, self.box.upper, self.dtype), classes)
        if whole.classes:
            point = find_counterexample(self.evaluate, self.box, self.label, self.dtype, generator=self.generator)
            if point is not None:
                return refuted(point)
        number = itertools.count()  # of equally bad parts, the older one comes first
        whole = self._quadratic(whole)
        least, parts = whole.least, [(whole.margin, next(number), whole)] if whole.classes else []
        while parts:
            if time.thread_time() - start > seconds or not parts[0][2].divisible:
                return verdict("open", min(least, parts[0][0]))
            _, _, part = heapq.heappop(parts)
            if part.point is not None:
                point = find_counterexample(
                    self.evaluate, self.box, self.label, self.dtype, start=part.point, generator=self.generator
                )
                if point is not None:
                    return refuted(point)
            for half in part.halves():
                found = self._quadratic(self._linear(half, part.classes))
                found = replace(found, margin=max(found.margin, part.margin))
                least = min(least, found.least)
                if found.classes:
                    heapq.heappush(parts, (found.margin, next(number), found))
        return verdict("proven", least)

    def _linear(self, box: Interval, classes: list[int]) -> _Part:
        """Bound the margins over some classes by linear functions, and keep those that may be negative."""
        self.bounded += 1
        margins = self.problem.linear(box.lower, box.upper, self._differences(classes)).lower[0].tolist()
        return _Part.of(box, dict(zip(classes, margins, strict=True)), math.inf, box.radius.flatten())

    def _quadratic(self, part: _Part) -> _Part:
        """Bound the margins that are still open by quadratic functions, where there is memory for them."""
        if not part.classes or not self.problem.fits:
            return part
        box = part.box
        zonotope = self.problem.zonotope(box.lower, box.upper, self._differences(part.classes))
        margins = dict(zip(part.classes, self.problem.hull(zonotope).lower[0].tolist(), strict=True))
        worst, influence = None, part.influence
        for row, other in enumerate(part.classes):
            if margins[other] > 0:
                continue
            quadratic = Quadratic.below(zonotope, row)
            found = least_value(quadratic)
            if found.lower <= 0 and (worst is None or found.lower < worst.lower):
                worst, influence = found, found.gaps.clamp(min=0) + quadratic.influence()
            margins[other] = max(margins[other], found.lower)
        point = None if worst is None else box.middle + box.radius * worst.point.reshape(box.lower.shape)
        return _Part.of(box, margins, part.least, influence, point)

    def _differences(self, classes: list[int]) -> Tensor:
        identity = torch.eye(self.problem.outputs[-1], dtype=torch.float64)
        return identity[self.label] - identity[classes]


@dataclass(frozen=True)
class _Part:
    """A part of a box, and what is known about the margins over it."""

    box: Interval
    classes: list[int]  # over which the margin may be negative
    margin: float  # at least
    least: float  # of the margins that are positive
    influence: Tensor  # how much halving along each input may help
    point: Tensor | None = None  # where the margin may be negative

    @staticmethod
    def of(
        box: Interval, margins: dict[int, float], least: float, influence: Tensor, point: Tensor | None = None
    ) -> _Part:
        """The part with lower bounds of the margins over some classes; ``least`` is that of the others."""
        still = [other for other, margin in margins.items() if not margin > 0]
        least = min([least, *(margin for margin in margins.values() if margin > 0)])
        lowest = min((margins[other] for other in still), default=least)
        return _Part(box, still, lowest, least, influence, point)

    @property
    def divisible(self) -> bool:
        return bool((self.box.radius > 0).any())

    def halves(self) -> Iterator[Interval]:
        low, high = self.box.lower.flatten(), self.box.upper.flatten()
        score = torch.where(high > low, self.influence + 1e-12 * (high - low), -math.inf)
        axis = int(score.argmax())
        middle = (low[axis] + high[axis]) / 2
        below, above = high.clone(), low.clone()
        below[axis], above[axis] = middle, middle
        shape = self.box.lower.shape
        yield Interval(low.reshape(shape), below.reshape(shape))
        yield Interval(above.reshape(shape), high.reshape(shape))


def _key(traced: Traced, boxes: Interval, labels: list[int]) -> str:
    """A checksum of network, boxes and labels, by which a file of verdicts is recognised."""
    graph, tensors = traced.graph, {"lower": boxes.lower, "upper": boxes.upper, **traced.graph.constants}
    operations = [(node.name, str(node.target), node.args, node.kwargs) for node in graph.nodes]
    types = [(name, value.dtype, value.shape) for name, value in tensors.items()]
    content = hashlib.sha256(repr((labels, traced.example[0].dtype, operations, graph.outputs, types)).encode())
    for value in tensors.values():
        content.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def _map(decide: Callable[[int], Verdict], rows: Sequence[int], workers: int) -> Iterator[Verdict]:
    if workers == 1:
        yield from map(decide, rows)
        return
    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(decide, rows)
        finally:  # interrupted, or an error: what has not begun is not begun
            pool.shutdown(cancel_futures=True)
