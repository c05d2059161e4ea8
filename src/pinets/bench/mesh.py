"""How fast is our spiral convolution beside the published formulation, and what does a fourth order cost?

Both sides of a comparison run in turn in one process, on the same mesh: a torus with as many vertices as COMA's
template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from pinets._memory import keep_memory
from pinets.bench.memory import peak_bytes
from pinets.bench.rows import Comparison, Results, collect
from pinets.bench.timing import interleave, machine, medians
from pinets.mesh import Hierarchy, HierarchyPlan, Level, Mesh, fit_length, spiral_lists
from pinets.models.spiral import spiral_autoencoder
from pinets.operators import SpiralConv

__all__ = ["FULL", "QUICK", "Case", "PublishedSpiralConv", "Row", "bench_mesh", "torus"]


class PublishedSpiralConv(nn.Module):
    """The spiral convolution as it was published: indices for all pairs of sample and spiral, a reshape, a linear map.

    Args:
        conv: Whose weights and spirals it takes.
    """

    def __init__(self, conv: SpiralConv) -> None:
        super().__init__()
        self.spirals, self.weight, self.bias = conv.spirals, conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """Vertices with one more, which is zero, in the end, as it was published: (batch, V + 1, features)."""
        batch = len(x)
        vertices, length = self.spirals.shape
        sample = torch.arange(batch).repeat_interleave(vertices * length)
        gathered = x[sample, self.spirals.flatten().repeat(batch)].view(batch * vertices, -1)
        return nn.functional.linear(gathered, self.weight, self.bias).view(batch, vertices, -1)


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        name: ``"convolution"``, against the published formulation; ``"memory"``, the same; or the layer of a network,
            ``"ncp"``, ``"ncp_skip"`` or ``"simple"``, against the plain one.
        vertices: Of the mesh.
        batch: Samples in a step.
        goal: The largest ratio to the baseline that we want.
        widths: Features before and after a convolution.
        order: Of a network's layers.
    """

    name: str
    vertices: int
    batch: int
    goal: float | None
    widths: tuple[int, int] = (16, 32)
    order: int = 4

    def __str__(self) -> str:
        what = {"convolution": "time of {}-{}", "memory": "memory of {}-{}"}.get(self.name)
        title = what.format(*self.widths) if what else f"time of {self.name}, order {self.order}"
        return f"{title}, {self.vertices} vertices, batch {self.batch}"


def _cases(vertices: int, batch: int) -> list[Case]:
    return [
        Case("convolution", vertices, batch, goal=1 / 1.6),
        Case("convolution", vertices, batch, goal=None, widths=(16, 16)),
        Case("convolution", vertices, batch, goal=None, widths=(3, 16)),
        Case("memory", vertices, batch, goal=1.0),
        *(Case(layer, vertices, batch, 4.5 if layer == "ncp" else None) for layer in ("ncp", "ncp_skip", "simple")),
        Case("ncp", vertices, batch, goal=None, order=2),
    ]


FULL = _cases(vertices=5023, batch=16)
QUICK = _cases(vertices=400, batch=4)


@dataclass(frozen=True)
class Row(Comparison):
    """What a case came to, in seconds or bytes, and the baseline."""

    case: Case
    rounds: int = 1

    def remark(self) -> str:
        return f", {1 / self.ratio:.2f} times as fast" if self.case.name == "convolution" else ""


def bench_mesh(
    which: Sequence[Case] = QUICK,
    *,
    seconds: float = 20.0,
    least: int = 5,
    on_row: Callable[[Row], None] | None = None,
) -> Results[Row]:
    """Measure every case.

    Args:
        which: The cases, as in :data:`QUICK` and :data:`FULL`.
        seconds: How long to time each; a few rounds run in any case.
        least: How many.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    return Results("mesh", collect((_measure(case, seconds, least) for case in which), on_row), facts)


def _measure(case: Case, seconds: float, least: int) -> Row:
    keep_memory()
    if case.name not in ("convolution", "memory"):
        plain, network = (_step(case, layer) for layer in ("plain", case.name))
        times = interleave({"value": network, "baseline": plain}, seconds=seconds, least=least)
        return Row(case, **medians(times), rounds=len(times["value"]))
    conv = SpiralConv(*case.widths, fit_length(spiral_lists(torus(case.vertices)), 9))
    published = PublishedSpiralConv(conv)
    x = torch.randn(case.batch, case.vertices, case.widths[0], requires_grad=True)
    padded = torch.cat([x.detach(), torch.zeros(case.batch, 1, case.widths[0])], dim=1).requires_grad_()
    gradient = torch.randn(case.batch, case.vertices, case.widths[1])
    weights = list(conv.parameters())

    def ours() -> object:
        return torch.autograd.grad(conv(x), [x, *weights], gradient)

    def theirs() -> object:
        return torch.autograd.grad(published(padded), [padded, *weights], gradient)

    if case.name == "memory":
        alive = [gradient, *weights, conv.spirals]
        return Row(case, peak_bytes(ours, [x, *alive]), peak_bytes(theirs, [padded, *alive]))
    times = interleave({"value": ours, "baseline": theirs}, seconds=seconds, least=least)
    return Row(case, **medians(times), rounds=len(times["value"]))


def _step(case: Case, layer: str) -> Callable[[], object]:
    """A training step of COMA's network, without activations, on the torus."""
    network = spiral_autoencoder(
        torus_hierarchy(case.vertices),
        layer=layer,  # type: ignore[arg-type]
        order=1 if layer == "plain" else case.order,
        activation="none",
    )
    x, weights = torch.randn(case.batch, case.vertices, 3), list(network.parameters())
    return lambda: torch.autograd.grad((network(x) - x).abs().mean(), weights)


def torus(vertices: int) -> Mesh:
    """A closed surface in which every vertex has six neighbours: about the number asked for, a strip of it left over.

    >>> torus(400)
    Mesh(400 vertices, 800 faces)
    """
    around = max(3, round(vertices**0.5))
    along = vertices // around
    if along < 3:  # nothing that closes
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
