"""A network traced once, and enclosures of its outputs over many boxes at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from pinets.algebra._certify import require_polynomial
from pinets.algebra.domains.base import Domain, V
from pinets.algebra.domains.dual import Dual, DualDomain
from pinets.algebra.domains.interval import Interval, IntervalDomain
from pinets.algebra.domains.rounding import OURS, Rounding
from pinets.algebra.domains.tape import Taped, TapeDomain
from pinets.algebra.domains.zonotope import Zonotope, ZonotopeDomain
from pinets.algebra.graph import Graph
from pinets.algebra.inputs import check_inputs, require_module
from pinets.algebra.shor import Quadratic, least_value
from pinets.algebra.traced import Traced

__all__ = ["Problem", "TooLargeError", "boxes_of", "check_labels", "own_type"]

_INTERPOLATIONS = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"}
_LARGEST = 2**23  # elements of the generators of one value; beyond, linear bounds are much faster
_AT_ONCE = 2**23  # the same, of all boxes that run together
_MOST_SYMBOLS, _MOST_DUALS = 128, 64  # inputs and outputs of all boxes, for which duals are solved unasked
_LARGEST_SLOPES = 2**22  # elements of what errors of one operation do to the outputs


class TooLargeError(ValueError):
    """The request takes more memory than is allowed."""


@dataclass(frozen=True)
class Problem:
    """A polynomial network and the rounding of its evaluation."""

    graph: Graph
    rounding: Rounding
    outputs: torch.Size  # of one box, with a batch of one
    inputs: torch.Size
    widest: int  # elements of the largest value that depends on the input
    sharpens: bool = True  # zonotopes by linear bounds of their factors: tighter, and slower for deep small networks

    @staticmethod
    def of(model: nn.Module | Traced, box: Interval, precision: torch.dtype | None) -> Problem:
        """Trace a network for boxes such as these, one in each row."""
        row = box.lower[:1].to(model.example[0].dtype if isinstance(model, Traced) else own_type(model, precision))
        traced = require_polynomial(model, row)
        example, graph = traced.require_one_row("a bound"), traced.graph
        _require_precision(graph, precision)
        varying = set(graph.inputs)  # constants, such as the transpose of a weight, have no generators
        for node in graph.nodes:
            if any(used.name in varying for used in node.all_input_nodes):
                varying.add(node.name)
        values = [node.meta.get("val") for node in graph.nodes if node.name in varying]
        shapes = [value.shape for value in values if isinstance(value, Tensor)]
        outputs = [node.meta["val"].shape for node in graph.nodes if node.name in graph.outputs]
        outputs += [example.shape for name in graph.inputs if name in graph.outputs]
        if len(graph.outputs) != 1 or len(outputs) != 1 or outputs[0][:1] != (1,):
            raise ValueError(
                f"the network must give one tensor, with a row for each input; got {list(map(tuple, outputs))}"
            )
        widest = max(shape.numel() for shape in [*shapes, example.shape])
        return Problem(graph, Rounding.of(precision), outputs[0], example.shape, widest)

    @property
    def symbols(self) -> int:
        return self.inputs.numel()

    @property
    def fits(self) -> bool:
        """Whether zonotopes of its values fit into memory."""
        return self.symbols * self.widest <= _LARGEST

    def enclose(self, boxes: Interval, differences: Tensor | None = None) -> Interval:
        """The outputs over each box; where given, each box's own matrix is applied to them first."""

        def tight(low: Tensor, high: Tensor, matrix: Tensor | None) -> Interval:
            return self.hull(self.zonotope(low, high, matrix)) if self.fits else self.linear(low, high, matrix)

        return self._each(tight, boxes, differences).meet(self.enclose_plainly(boxes, differences))

    def sharpen(self, boxes: Interval, known: Interval, differences: Tensor | None = None) -> Interval:
        """The result of :meth:`enclose`, tightened by Shor's relaxation where that takes about a second."""
        if not self.fits or self.symbols > _MOST_SYMBOLS or known.lower.numel() > _MOST_DUALS:
            return known
        lower, upper = (end.clone() for end in (known.lower, known.upper))
        for row, matrix in enumerate([None] * len(lower) if differences is None else differences):
            zonotope = self.zonotope(boxes.lower[row : row + 1], boxes.upper[row : row + 1], matrix)
            if zonotope.generators is None or not zonotope.products:
                continue
            below = [
                [least_value(Quadratic.below(zonotope, element, sign), None).lower for sign in (1, -1)]
                for element in range(lower[row].numel())
            ]
            low, high = torch.tensor(below, dtype=torch.float64).T.reshape(2, *lower[row].shape)
            lower[row], upper[row] = torch.maximum(lower[row], low), torch.minimum(upper[row], -high)
        return Interval(lower, upper)

    def zonotope(self, low: Tensor, high: Tensor, differences: Tensor | None = None) -> Zonotope:
        """The outputs over one box, of batch size one; where given, a matrix is applied to them first."""
        inner = ZonotopeDomain(self.rounding, self.symbols)
        tape, output, rows = self._taped(inner, low, high, differences)
        assert isinstance(output.inner, Zonotope)
        found = _differences(inner, output.inner, differences)
        if len(rows) * self.widest > _LARGEST_SLOPES:
            return found
        found = replace(found, error=torch.minimum(found.error, tape.errors(output, rows).reshape(found.error.shape)))
        if not self.sharpens:
            return found
        return replace(found, hull=found.hull.meet(tape.bound(output, rows).reshape(found.error.shape)))

    def linear(self, low: Tensor, high: Tensor, differences: Tensor | None = None) -> Interval:
        """The same, between linear functions of the inputs: less tight and much faster than a zonotope."""
        inner = IntervalDomain(self.rounding)
        tape, output, rows = self._taped(inner, low, high, differences)
        found = _differences(inner, output.hull, differences)
        return found.meet(tape.bound(output, rows).reshape(found.lower.shape))

    def _taped(
        self, inner: IntervalDomain | ZonotopeDomain, low: Tensor, high: Tensor, differences: Tensor | None = None
    ) -> tuple[TapeDomain, Taped, Tensor]:
        """The operations on a tape, the output, and the linear functions of it that are asked for."""
        tape = TapeDomain(inner, sharpens=self.sharpens or isinstance(inner, IntervalDomain))
        output = self._run(tape, tape.box(low, high))
        elements = self.outputs.numel()
        rows = torch.eye(elements, dtype=torch.float64) if differences is None else differences
        return tape, output, rows.reshape(-1, *self.outputs)

    def hull(self, found: Zonotope) -> Interval:
        """All values of a zonotope of :meth:`zonotope`."""
        spread = found.spread + found.error + OURS.slack(self.symbols, found.size)
        return found.hull.meet(Interval(found.center - spread, found.center + spread))

    def enclose_plainly(self, boxes: Interval, differences: Tensor | None = None) -> Interval:
        """The same by interval arithmetic."""
        domain = IntervalDomain(self.rounding)

        def plain(low: Tensor, high: Tensor, matrix: Tensor | None) -> Interval:
            return _differences(domain, self._run(domain, Interval(low, high)), matrix)

        return self._each(plain, boxes, differences)

    def rate(self, boxes: Interval) -> Tensor:
        """Bounds on how fast the outputs change with the inputs, for each box."""
        inner = ZonotopeDomain(self.rounding, 2 * self.symbols)

        def backwards(low: Tensor, high: Tensor, _: None) -> Interval:
            tape, output, rows = self._taped(IntervalDomain(self.rounding), low, high)
            found = tape.rates(output, rows).reshape(self.outputs)
            return Interval(-found, found)

        def forwards(low: Tensor, high: Tensor, _: None) -> Interval:
            ones = torch.ones(self.inputs, dtype=torch.float64)
            start = Dual(inner.box(low, high), inner.box(-ones, ones, first=self.symbols))
            tangent = self._run(DualDomain(inner), start).tangent
            return (tangent or inner.constant(torch.zeros(self.outputs))).hull

        found = self._each(backwards, boxes)
        if 2 * self.symbols * self.widest <= _LARGEST:
            found = found.meet(self._each(forwards, boxes))
        return torch.maximum(found.upper, -found.lower)

    def _run(self, domain: Domain[V], start: V) -> V:
        (found,) = self.graph.run(domain, [start], dtype=torch.float64, rounds_constants=True)
        return domain.constant(found) if isinstance(found, Tensor) else found

    def _each(self, run: Callable[..., Interval], boxes: Interval, differences: Tensor | None = None) -> Interval:
        """Run boxes side by side, as many at a time as memory allows."""
        together = max(1, _AT_ONCE // (self.symbols * self.widest))

        def ends(low: Tensor, high: Tensor, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
            found = run(low[None], high[None], matrix)
            return found.lower[0], found.upper[0]

        axes = (0, 0, None if differences is None else 0)
        lower, upper = torch.vmap(ends, axes, chunk_size=together)(boxes.lower, boxes.upper, differences)
        # what overflows on the way is not a number in the end, and can be anything
        return Interval(torch.where(lower.isnan(), -torch.inf, lower), torch.where(upper.isnan(), torch.inf, upper))


def _differences(domain: Domain[V], outputs: V, matrix: Tensor | None) -> V:
    """A matrix applied to the outputs, if there is one."""
    if matrix is None:
        return outputs
    return domain.product(torch.nn.functional.linear, outputs, domain.constant(matrix))


def own_type(model: nn.Module, precision: torch.dtype | None) -> torch.dtype:
    """The type that a network takes; if only scalars have one, which torch converts, the type it is evaluated in."""
    require_module(model)
    values = [value for value in itertools.chain(model.parameters(), model.buffers()) if value.is_floating_point()]
    known = [value for value in values if value.ndim] or (values if precision is None else [])
    return known[0].dtype if known else precision or torch.float64


def _require_precision(graph: Graph, precision: torch.dtype | None) -> None:
    """Refuse a network that rounds more than it is said to, in all of it or in a part."""
    if precision is None:
        return
    coarse = [dtype for dtype in graph.float_types if torch.finfo(dtype).eps > torch.finfo(precision).eps]
    if coarse:
        raise ValueError(
            f"the network computes in {coarse[0]}, and bounds for evaluation in {precision} would not hold: convert it "
            f"with .to({precision}), or ask with precision=None for its polynomial alone"
        )
    for node in graph.nodes:
        name = getattr(node.target, "_opname", None)
        if name == "_linalg_det":
            raise ValueError(
                f"det computes by elimination, whose rounding is not known here, and bounds for evaluation in "
                f"{precision} would not hold: ask with precision=None for its polynomial alone"
            )
        if name in _INTERPOLATIONS and not _has_exact_weights(node):
            raise ValueError(
                f"{name} computes its weights with rounding errors of their own, and bounds for "
                f"evaluation in {precision} would not hold: ask with precision=None for its polynomial alone"
            )


def _has_exact_weights(node: fx.Node) -> bool:
    """Whether an interpolation gives small whole numbers the same values in double precision: weights such as 1/4."""
    image, *rest = node.args
    assert isinstance(image, fx.Node)
    example: Tensor = image.meta["val"]
    whole = torch.randint(-8, 9, example.shape, generator=torch.Generator().manual_seed(0))
    target: Any = node.target
    own, double = (target(whole.to(dtype), *rest, **node.kwargs) for dtype in (example.dtype, torch.float64))
    return torch.equal(own.double(), double)


def boxes_of(lower: Tensor, upper: Tensor, precision: torch.dtype | None) -> Interval:
    """Boxes from their corners, or an error that says what is wrong with them.

    They hold what an input of the box becomes in the given precision as well.
    """
    for name, corner in (("lower", lower), ("upper", upper)):
        if not isinstance(corner, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(corner).__name__}")
    check_inputs((lower, upper))
    if lower.shape == upper.shape and lower.ndim < 2:
        raise ValueError(
            f"lower and upper must have a batch axis, one box in each row; got shape {tuple(lower.shape)}, to which "
            f"[None] adds one"
        )
    if lower.shape != upper.shape:
        raise ValueError(
            f"lower and upper must have the same shape, one box in each row; got {tuple(lower.shape)} and "
            f"{tuple(upper.shape)}"
        )
    if (lower > upper).any():
        raise ValueError(
            f"lower must not exceed upper, but does in {int((lower > upper).sum())} of {lower.numel()} places"
        )
    low, high = (corner.detach().cpu().double() for corner in (lower, upper))
    if precision is None:
        return Interval(low, high)
    return Interval(torch.minimum(low, low.to(precision).double()), torch.maximum(high, high.to(precision).double()))


def check_labels(outputs: torch.Size, labels: Tensor | Sequence[int], boxes: int) -> Tensor:
    """The class of each box, or an error that says what is wrong with them."""
    if len(outputs) != 2:
        raise ValueError(f"a classifier gives one row of outputs for each input, got shape {tuple(outputs)}")
    classes, labels = outputs[-1], torch.as_tensor(labels)
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    if not whole or labels.shape != (boxes,) or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels must be {boxes} whole numbers from 0 to {classes - 1}, got {labels}")
    return labels.cpu()
