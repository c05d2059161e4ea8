"""The largest numbers of a circuit over a range of inputs: what must fit the modulus.

Two ways lead to them. Sound bounds hold for every input in the range. Where they are too loose for a plan, a search by
gradient ascent finds inputs with large numbers, and a margin is added, since a search may miss the largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pinets.algebra import bounds
from pinets.encrypted.circuit import Affine, Circuit, Leaf, Tree
from pinets.encrypted.stencil import apply, magnitudes

__all__ = ["INPUT_MARGIN", "SEARCH_MARGIN", "Reach", "proven_reach", "sampled_reach", "searched_reach"]

SEARCH_MARGIN = 2.0  # bits of room beyond the largest numbers that the search finds
INPUT_MARGIN = 20.0  # bits of room beyond the largest numbers of given inputs
_SLACK = 1.01  # covers rounding in double precision, and noise
_CHUNK = 64  # inputs at once
_LARGEST = 2**22  # entries of a matrix up to which `bounds` is tried; it takes seconds
_TIGHT = 8.0  # times the largest known output: `bounds` is not tried where interval arithmetic comes so near
_STARTS, _STEPS = 240, 60  # inputs that climb at once, and steps of the ascent
_FEW_STARTS, _FEW_STEPS = 8, 20  # the same for large networks
_WORK = 2**22  # multiplications above which a network counts as large


@dataclass(frozen=True)
class Reach:
    """The largest numbers of a circuit over a range of inputs."""

    output: float
    inner: dict[int, float]  # inside the circuit, by the number of levels spent when they are known
    proven: bool  # or searched for
    covers: Literal["range", "inputs"] = "range"  # every input in the range, or given inputs alone


def proven_reach(circuit: Circuit, low: float, high: float, known: float = 0.0) -> Reach:
    """Sound bounds for every input with numbers from ``low`` to ``high``; infinite if they overflow.

    ``known`` is an output that occurs, to tell how tight a bound is.
    """
    box = [torch.full((1, circuit.size), edge, dtype=torch.float64) for edge in (low, high)]
    output, inner = _propagate(circuit, *box)
    entries = max(math.prod(matrix.shape) for form in circuit.forms for matrix in form.terms.values())
    if output > _TIGHT * known and entries <= _LARGEST:
        found = bounds(_AsModule(circuit), *box, precision=None)
        output = min(output, float(torch.maximum(found.upper.abs(), found.lower.abs()).max()))
    return Reach(_SLACK * output, {spent: _SLACK * size for spent, size in inner.items()}, proven=True)


def searched_reach(circuit: Circuit, low: float, high: float, starts: Tensor) -> Reach:
    """The largest numbers that gradient ascent finds from ``low`` to ``high``, times ``2 ** SEARCH_MARGIN``.

    ``starts`` are inputs to start from, beside random ones.
    """
    found = torch.cat([starts, *(_climb(circuit, low, high, starts, value) for value in range(len(circuit.sizes)))])
    output, inner = _propagate(circuit, found, found)
    grown = 2.0**SEARCH_MARGIN
    return Reach(grown * output, {spent: grown * size for spent, size in inner.items()}, proven=False)


def sampled_reach(circuit: Circuit, inputs: Tensor) -> Reach:
    """The largest numbers of the given inputs, times ``2 ** INPUT_MARGIN``; other inputs may exceed them."""
    output, inner = 0.0, dict[int, float]()
    for some in inputs.split(_CHUNK):
        largest, sizes = _propagate(circuit, some, some)
        output = max(output, largest)
        inner = {spent: max(size, inner.get(spent, 0.0)) for spent, size in sizes.items()}
    grown = 2.0**INPUT_MARGIN
    return Reach(grown * output, {spent: grown * size for spent, size in inner.items()}, proven=False, covers="inputs")


class _AsModule(nn.Module):
    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        self.circuit = circuit

    def forward(self, x: Tensor) -> Tensor:
        return self.circuit(x)


def _propagate(circuit: Circuit, lower: Tensor, upper: Tensor) -> tuple[float, dict[int, float]]:
    """The largest output and inner numbers over a batch of boxes (points are boxes too), by interval arithmetic."""
    values = [(lower, upper)]
    inner: dict[int, float] = {}

    def note(spent: int, sizes: Tensor) -> None:
        largest = float(sizes.max())
        inner[spent] = max(inner.get(spent, 0.0), largest if math.isfinite(largest) else math.inf)

    def affine(form: Affine) -> tuple[Tensor, Tensor]:
        middle, radius = form.constant, torch.zeros_like(form.constant)
        for value, matrix in form.terms.items():
            least, most = values[value]
            middle = middle + apply(matrix, (least + most) / 2)
            radius = radius + apply(magnitudes(matrix), (most - least) / 2)
        return middle - radius, middle + radius

    def visit(tree: Tree, spent: int) -> tuple[Tensor, Tensor]:
        if isinstance(tree, Leaf):
            return leaf(tree.factors, spent)
        out = _multiply(visit(tree.left, spent - 1), visit(tree.right, spent - 1))
        note(spent, _size(out))
        return out

    def leaf(factors: tuple[Affine, ...], spent: int) -> tuple[Tensor, Tensor]:
        known = [affine(factor) for factor in factors]
        folds = (len(factors) - 1).bit_length()
        # whatever the order of multiplications: the product of the 2^k largest factors
        sizes = torch.stack([_size(one).clamp(min=1.0) for one in known]).sort(0, descending=True).values.cumprod(0)
        for fold in range(folds + 1):
            note(spent - folds + fold, sizes[min(2**fold, len(factors)) - 1])
        out = known[0]
        for other in known[1:]:
            out = _multiply(out, other)
        return out

    for number, tree in enumerate(circuit.trees, 1):
        values.append(visit(tree, circuit.depths[number]))
    output = float(_size(affine(circuit.output)).max())
    return output if math.isfinite(output) else math.inf, inner


def _multiply(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    corners = torch.stack([a * b for a in left for b in right])
    return corners.amin(0), corners.amax(0)


def _size(interval: tuple[Tensor, Tensor]) -> Tensor:
    return torch.maximum(interval[0].abs(), interval[1].abs())


def _climb(circuit: Circuit, low: float, high: float, starts: Tensor, value: int) -> Tensor:
    """Inputs in the range at which entries of a value are large; value 0 stands for the outputs."""
    generator = torch.Generator().manual_seed(value)
    climbing, steps = (_STARTS, _STEPS) if circuit.work <= _WORK else (_FEW_STARTS, _FEW_STEPS)
    uniform = torch.rand(climbing, circuit.size, generator=generator, dtype=torch.float64)
    uniform[::2] = uniform[::2].round()  # every second one is a corner of the box
    x = low + (high - low) * uniform
    count = min(len(starts), climbing // 4)
    x[:count] = starts[:count]
    rows = torch.arange(climbing)
    sign = torch.where(rows % 2 == 0, 1.0, -1.0).double()
    best = x
    for step in range(steps):
        x = x.detach().requires_grad_()
        entries = circuit.values(x)[value] if value else circuit(x)
        goal = sign * entries[rows, rows // 2 % entries.shape[1]]
        (slope,) = torch.autograd.grad(goal.sum(), x)
        if step == 0:
            best, record = x.detach(), goal.detach()
        better = goal.detach() > record
        record = torch.where(better, goal.detach(), record)
        best = torch.where(better[:, None], x.detach(), best)
        stride = (high - low) * (0.3 if step < steps // 2 else 0.05)
        x = (x.detach() + stride * slope.sign()).clamp(low, high)
    return best
