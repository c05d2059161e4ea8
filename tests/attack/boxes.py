"""Points against bounds: random networks, boxes at many scales, gradient ascent inside them, and exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from fractions import Fraction
from random import Random
from unittest import mock

import torch
from torch import Tensor, nn

from pinets import CCP, NCP, NCPSkip, PowerSum
from pinets.algebra import Traced, ball, bounds, interval_bounds, lipschitz, margins, trace, verify
from tests.attack.tally import Tally, cases

__all__ = ["attack", "rational_ccp"]

POINTS = 200
STEPS = 30


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def attack(seconds: float, seed: int) -> Tally:
    """No input of a box may give outputs outside the bounds, however it is chosen."""
    tally = Tally()
    for name, random in cases(seconds, seed):
        torch.manual_seed(random.randrange(2**31))
        kind = random.choice(list(NETWORKS))
        features = random.choice([1, 2, 4, 6])
        dtype = random.choice([torch.float32, torch.float64])
        model = NETWORKS[kind](features, random).eval().to(dtype)
        traced = trace(model, torch.zeros(1, features, dtype=dtype))
        for _ in range(3):
            power = random.choice([3, 3, 3, 12, 37])  # sometimes so large that single precision overflows
            scale, eps = 10 ** random.uniform(-power, power), random.choice([0.0, 1e-6, 1e-3, 0.1, 1.0])
            lower, upper = ball(scale * torch.randn(1, features), eps * scale)
            large = random.random() < 0.3
            memory = mock.patch("pinets.algebra.enclosure._LARGEST", 1) if large else nullcontext()
            about = f"{kind} of {features} in {dtype}, scale {scale:.3g}, eps {eps}{', too large' if large else ''}"
            tally.cases += POINTS
            with memory:
                attack_box(tally, f"{name}: {about}", model, traced, lower, upper)
                if isinstance(model, CCP):
                    attack_exactly(tally, f"{name}: {about}", model, traced, lower, upper)
    return tally


def attack_exactly(tally: Tally, name: str, model: CCP, traced: Traced, lower: Tensor, upper: Tensor) -> None:
    """Rational numbers, without any rounding, against the bounds of the polynomial."""
    found = bounds(traced, lower, upper, precision=None)
    ends = [list(map(Fraction, end.flatten().tolist())) for end in (lower, upper)]
    bound = list(zip(found.lower.flatten().tolist(), found.upper.flatten().tolist(), strict=True))
    for _ in range(3):
        places = torch.randint(0, 5, (lower.numel(),)).tolist()
        point = [low + (high - low) * Fraction(place, 4) for low, high, place in zip(*ends, places, strict=True)]
        within = [low <= value <= high for value, (low, high) in zip(rational_ccp(model, point), bound, strict=True)]
        tally.check(all(within), f"{name}: an exact value leaves the bounds")


def rational_ccp(model: CCP, z: Sequence[Fraction]) -> list[Fraction]:
    """A CCP as its formula says, in rational numbers."""

    def times(layer: nn.Module, x: Sequence[Fraction]) -> list[Fraction]:
        return [
            sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction()) for row in layer.weight.tolist()
        ]

    x = times(model.start, z)
    for step in model.steps:
        x = [(1 + u) * v for u, v in zip(times(step.gate, z), x, strict=True)]
    return [y + Fraction(b) for y, b in zip(times(model.head, x), model.head.bias.tolist(), strict=True)]


def attack_box(tally: Tally, name: str, model: nn.Module, traced: Traced, lower: Tensor, upper: Tensor) -> None:
    dtype = traced.example[0].dtype
    found, plain = bounds(traced, lower, upper, precision=dtype), interval_bounds(traced, lower, upper, precision=dtype)
    tally.check((found.lower >= plain.lower).all() & (found.upper <= plain.upper).all(), f"{name}: looser than plain")
    places = torch.rand(POINTS, *lower.shape[1:], dtype=torch.float64).round(decimals=1)  # some at the corners
    points = inside(lower, upper, lower + (upper - lower) * places, dtype)
    for place, at in (("random", points), ("ascent", ascend(model, points, lower, upper))):
        with torch.no_grad():
            outputs = model(at).double()
        between = (outputs >= found.lower) & (outputs <= found.upper)
        unbounded = (found.lower == -torch.inf) & (found.upper == torch.inf)
        tally.check((between | unbounded).all(), f"{name}: a {place} point leaves the bounds")
    if not outputs.isfinite().all():
        return
    rate = lipschitz(traced, lower, upper)
    slopes = torch.func.vmap(torch.func.jacrev(lambda x: model(x[None])[0]))(points).double()
    size = slopes.abs().flatten(outputs.ndim).sum(-1)
    tally.check((size <= rate * (1 + 1e-4) + 1e-6 * size.max()).all(), f"{name}: steeper than the rate of change")
    if found.lower.ndim == 2 and found.lower.shape[1] > 1:
        label = int(outputs.sum(0).argmax())
        least = margins(traced, lower, upper, torch.tensor([label]))
        gaps = outputs[:, label : label + 1] - outputs
        spread = 1e-5 * outputs.abs().max()
        tally.check((gaps >= least - spread).all(), f"{name}: a margin is smaller than promised")
        (verdict,) = verify(traced, lower, upper, [label], seconds=0.05)
        others = torch.cat([gaps[:, :label], gaps[:, label + 1 :]], 1)
        tally.check(verdict.status != "proven" or bool((others > 0).all()), f"{name}: a point refutes a proof")


def inside(lower: Tensor, upper: Tensor, points: Tensor, dtype: torch.dtype) -> Tensor:
    """The points that the box holds, in the network's precision; its centre, if there are none."""
    rounded = points.to(dtype)
    kept = ((rounded.double() >= lower) & (rounded.double() <= upper)).flatten(1).all(1)
    return rounded[kept] if kept.any() else ((lower + upper) / 2).to(dtype)


def ascend(model: nn.Module, points: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Follow the sign of the gradient of a random combination of outputs, within the box."""
    at, width = points.clone(), (upper - lower).to(points)
    weights = torch.randn(model(points[:1]).shape).to(points)
    for step in range(STEPS):
        at.requires_grad_()
        (slope,) = torch.autograd.grad((model(at) * weights).sum(), at, allow_unused=True)
        if slope is None:
            break
        moved = at.detach() + slope.sign() * width * 0.5 ** (step / 4)
        at = torch.maximum(torch.minimum(moved, upper.to(at)), lower.to(at))
    return inside(lower, upper, at.detach().double(), points.dtype)


class Computed(nn.Module):
    """Adds sums of its own parameters, which cancel, and divides by one; averages and multiplies all inputs."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        size = 10 ** random.uniform(0, 8)
        self.w = nn.Parameter(torch.tensor([size, 1.0, -size] * 4) * torch.randn(1))
        self.v = nn.Parameter(torch.randn(12) + random.choice([0.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        shift, scale = self.w.sum() + self.w.mean() * self.v.cumsum(0)[-1], self.v.sum()
        return torch.cat([x.mean(1, keepdim=True) + shift, x.prod(1, keepdim=True) / scale], 1)


class Excited(nn.Module):
    """A broadcast product that is reshaped: squeeze and excite."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(features, 3), nn.Linear(3 * features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x[:, None, :] * self.gate(x)[:, :, None]).flatten(1))


def convolutional(features: int, random: Random) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, features)),
        NCP(1, 3, rank=3, order=2, op=lambda *a, **k: nn.Conv1d(*a, kernel_size=3, padding=1, **k)),
        nn.BatchNorm1d(3),
        nn.Flatten(),
        CCP(3 * features, 2, rank=2, order=random.choice([1, 2])),
    )


NETWORKS: dict[str, Callable[[int, Random], nn.Module]] = {
    "CCP": lambda n, random: CCP(n, 3, rank=random.choice([1, 4, 8]), order=random.choice([1, 2, 3, 5])),
    "NCP": lambda n, random: NCP(n, 3, rank=random.choice([1, 4, 8]), order=random.choice([1, 2, 3, 5])),
    "NCPSkip": lambda n, random: NCPSkip(n, 3, rank=random.choice([1, 4, 8]), order=random.choice([1, 2, 3, 5])),
    "product": lambda n, random: nn.Sequential(CCP(n, 4, rank=3, order=2), NCP(4, 2, rank=3, order=2)),
    "powers": lambda n, random: nn.Sequential(nn.Linear(n, 4), PowerSum(random.choice([2, 3, 4]))),
    "convolutional": convolutional,
    "computed constants": lambda n, random: Computed(random),
    "squeeze and excite": lambda n, random: Excited(n),
}
