"""How fast is our spiral convolution beside its published form, and what does a fourth order cost?

Convolutions: forward and backward of one, in time and memory, against advanced indexing, reshape and linear. Networks:
a training step of order 2 and 4 against the plain network. ratio = ours / baseline, both eager or both compiled. The
mesh is a torus with as many vertices as COMA's template.

Example:
  python -m benchmarks mesh --quick
  python -m benchmarks mesh --compile --only convolution --seconds 60 --busy
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.measuring import interleave, medians, peak_bytes
from benchmarks.rows import Goal, Row, add_timing, choose
from pinets.models.spiral import spiral_autoencoder
from pinets.operators import SpiralConv
from pinets.tasks.meshes.geometry import Hierarchy, HierarchyPlan, Level, Mesh, fit_length, spiral_lists

__all__ = ["FULL", "QUICK", "Case", "PublishedSpiralConv", "add_arguments", "measure", "rows", "torus"]


class PublishedSpiralConv(nn.Module):
    """The published form: indices for all pairs of sample and spiral, a reshape, a linear map.

    Args:
        conv: The convolution whose weights and spirals it takes.
    """

    def __init__(self, conv: SpiralConv) -> None:
        super().__init__()
        self.spirals, self.weight, self.bias = conv.spirals, conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, V + 1, features): as published, with one more vertex at the end, which is zero."""
        batch = len(x)
        vertices, length = self.spirals.shape
        sample = torch.arange(batch).repeat_interleave(vertices * length)
        gathered = x[sample, self.spirals.flatten().repeat(batch)].view(batch * vertices, -1)
        return nn.functional.linear(gathered, self.weight, self.bias).view(batch, vertices, -1)


@dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        name: ``"convolution"`` or ``"memory"``, against the published form; or the layer of a network, ``"ncp"``,
            ``"ncp_skip"`` or ``"simple"``, against the plain one.
        vertices: Of the mesh.
        batch: Samples in a step.
        goal: The largest ratio that we want, eager and compiled.
        widths: Features before and after a convolution.
        order: Of a network's layers.
    """

    name: str
    vertices: int
    batch: int
    goal: float | None = None
    widths: tuple[int, int] = (16, 32)
    order: int = 4

    def __str__(self) -> str:
        before, after = self.widths
        of_conv = self.name in ("convolution", "memory")
        title = f"{self.name} {before}-{after}" if of_conv else f"network {self.name}, order {self.order}"
        return f"{title}, {self.vertices} vertices, batch {self.batch}"


def _cases(vertices: int, batch: int) -> list[Case]:
    return [
        *(Case("convolution", vertices, batch, goal=1.0, widths=widths) for widths in ((16, 32), (16, 16), (3, 16))),
        Case("memory", vertices, batch, goal=1.0),
        *(Case(layer, vertices, batch, 4.5 if layer == "ncp" else None) for layer in ("ncp", "ncp_skip", "simple")),
        Case("ncp", vertices, batch, order=2),
    ]


FULL = _cases(vertices=5023, batch=16)
QUICK = _cases(vertices=400, batch=4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=20.0, quick="a small mesh and batch")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each case."""
    for case in choose(QUICK if args.quick else FULL, args.only):
        yield measure(case, seconds=args.seconds, compiled=args.compile)


def measure(case: Case, *, seconds: float, compiled: bool = False, least: int = 5) -> Row:
    """Measure one case."""
    torch.compiler.reset()  # or the networks of earlier cases count as recompilations
    if case.name not in ("convolution", "memory"):
        return _timed(
            case,
            lambda run: _step(case, case.name, run),
            lambda run: _step(case, "plain", run),
            seconds,
            compiled,
            least,
        )
    conv = SpiralConv(*case.widths, fit_length(spiral_lists(torus(case.vertices)), 9))
    published = PublishedSpiralConv(conv)
    x = torch.randn(case.batch, case.vertices, case.widths[0], requires_grad=True)
    padded = torch.cat([x.detach(), torch.zeros(case.batch, 1, case.widths[0])], dim=1).requires_grad_()
    gradient = torch.randn(case.batch, case.vertices, case.widths[1])
    weights = list(conv.parameters())

    def ours(prepare: Prepare) -> Callable[[], object]:
        run = prepare(conv)
        return lambda: torch.autograd.grad(run(x), [x, *weights], gradient)

    def theirs(prepare: Prepare) -> Callable[[], object]:
        run = prepare(published)
        return lambda: torch.autograd.grad(run(padded), [padded, *weights], gradient)

    if case.name == "convolution":
        return _timed(case, ours, theirs, seconds, compiled, least)
    alive = [gradient, *weights, conv.spirals]
    taken, baseline = peak_bytes(ours(_eager), [x, *alive]), peak_bytes(theirs(_eager), [padded, *alive])
    figures = {"MB": taken / 1e6, "baseline MB": baseline / 1e6, "ratio": taken / baseline}
    return Row(str(case), figures, (Goal("ratio", at_most=case.goal),))


Prepare = Callable[[nn.Module], Callable[[Tensor], Tensor]]  # of a network: compile it, or leave it as it is


def _eager(network: nn.Module) -> Callable[[Tensor], Tensor]:
    return network


def _compiled(network: nn.Module) -> Callable[[Tensor], Tensor]:
    return torch.compile(network, fullgraph=True)


def _timed(
    case: Case,
    ours: Callable[[Prepare], Callable[[], object]],
    baseline: Callable[[Prepare], Callable[[], object]],
    seconds: float,
    compiled: bool,
    least: int,
) -> Row:
    ways: dict[str, Prepare] = {"eager": _eager, "compiled": _compiled} if compiled else {"eager": _eager}
    calls = {f"{way} ours": ours(prepare) for way, prepare in ways.items()}
    calls |= {f"{way} baseline": baseline(prepare) for way, prepare in ways.items()}
    times = interleave(calls, seconds=seconds, least=least)
    median, goals = medians(times), []
    figures: dict[str, float] = {}
    for way in ways:
        taken, reference = median[f"{way} ours"], median[f"{way} baseline"]
        figures |= {f"{way} ms": taken * 1e3, f"{way} ratio": taken / reference}
        goals += [Goal(f"{way} ratio", at_most=case.goal)] if case.goal is not None else []
    return Row(str(case), figures, tuple(goals), {"seconds": median, "rounds": len(times["eager ours"])})


def _step(case: Case, layer: str, prepare: Prepare) -> Callable[[], object]:
    """A training step of COMA's network, without activations, on the torus."""
    network = spiral_autoencoder(
        torus_hierarchy(case.vertices),
        layer=layer,  # type: ignore[arg-type]
        order=1 if layer == "plain" else case.order,
        activation="none",
    )
    run = prepare(network)
    x, weights = torch.randn(case.batch, case.vertices, 3), list(network.parameters())
    return lambda: torch.autograd.grad((run(x) - x).abs().mean(), weights)


def torus(vertices: int) -> Mesh:
    """A closed surface in which every vertex has six neighbours.

    Where the number of vertices is not that of a grid, the rest is in no face.

    >>> torus(400)
    Mesh(400 vertices, 800 faces)
    """
    around = max(3, round(vertices**0.5))
    along = vertices // around
    if along < 3:  # too few for a closed surface
        return Mesh(torch.zeros(vertices, 3), torch.empty(0, 3, dtype=torch.int64))
    number = torch.arange(around * along).view(along, around)
    right, down = number.roll(-1, 1), number.roll(-1, 0)
    corner = right.roll(-1, 0)
    faces = torch.cat(
        [torch.stack([a.flatten() for a in three], 1) for three in ((number, right, corner), (number, corner, down))]
    )
    u = torch.arange(along)[:, None] * (2 * torch.pi / along)
    v = torch.arange(around) * (2 * torch.pi / around)
    ring = 2 + v.cos()
    points = torch.stack([ring * u.cos(), ring * u.sin(), v.sin().expand(along, around)], dim=-1).reshape(-1, 3)
    loose = torch.zeros(vertices - len(points), 3)  # in no face, so that the number is the one asked for
    return Mesh(torch.cat([points, loose]), faces)


def torus_hierarchy(vertices: int) -> Hierarchy:
    """Tori with fewer and fewer vertices; each takes its vertices from the first of the one before."""
    sizes = HierarchyPlan().sizes(vertices)
    levels = []
    for size in sizes:
        mesh = torus(size)
        levels.append(Level(mesh, fit_length(spiral_lists(mesh), 9)))
    down = tuple(torch.arange(small) * large // small for large, small in pairwise(sizes))
    up = []
    for large, small in pairwise(sizes):
        nearest = (torch.arange(large) * small // large)[:, None]
        up.append(((nearest + torch.arange(3)) % small, torch.full((large, 3), 1 / 3)))
    return Hierarchy(tuple(levels), down, tuple(up))
