"""Verdicts must be right: proofs hold at every point tried, and the network itself gets counterexamples wrong."""

from __future__ import annotations

import json
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum
from pinets.algebra import NotPolynomialError, ball, bounds, margins, trace, verify
from pinets.algebra.domains.interval import Interval
from pinets.algebra.enclosure import Problem
from pinets.algebra.shor import Quadratic, least_value
from tests.algebra.networks import CONV


def random_quadratic(seed, symbols, products):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    loose = draw(products).abs() * 0.1
    return Quadratic(
        float(draw(1)), draw(symbols), draw(symbols, products), draw(symbols, products), draw(products), loose
    )


def value(quadratic, points):
    left, right = points @ quadratic.left, points @ quadratic.right
    return (
        quadratic.constant
        + points @ quadratic.linear
        + (left * right) @ quadratic.exact
        - (left * right).abs() @ quadratic.loose
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), symbols=st.integers(1, 7), products=st.integers(0, 6))
def test_the_relaxation_is_below_every_value_and_near_the_least(seed, symbols, products):
    quadratic = random_quadratic(seed, symbols, products)
    found = least_value(quadratic, enough=None)
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * symbols).reshape(-1, symbols)
    inside = torch.rand(500, symbols, dtype=torch.float64) * 2 - 1
    values = value(quadratic, torch.cat([corners, inside]))
    assert found.lower <= values.min()
    assert found.lower >= quadratic.constant - quadratic.linear.abs().sum() - quadratic.size - 1e-6


def test_a_convex_quadratic_is_bounded_exactly():
    """x^2 + y^2 - x over [-1, 1]^2 is least at (1/2, 0)."""
    one = torch.eye(2, dtype=torch.float64)
    linear = torch.tensor([-1.0, 0.0], dtype=torch.float64)
    found = least_value(Quadratic(0.0, linear, one, one, torch.ones(2).double(), torch.zeros(2).double()), None)
    assert found.lower == pytest.approx(-0.25, abs=1e-3)
    assert found.lower <= -0.25


def test_the_relaxation_is_near_the_least_value_where_cauchy_schwarz_is_not():
    """Signs count: xy - xy is nothing, and x^2 is never negative."""
    left = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    right = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    opposite = torch.tensor([5.0, -5.0], dtype=torch.float64)
    nothing = torch.zeros(2, dtype=torch.float64)
    assert least_value(Quadratic(0.1, nothing, left, right, opposite, nothing)).lower > 0
    assert least_value(Quadratic(0.1, nothing, left, left, opposite.abs(), nothing)).lower > 0


NETWORKS = {
    "CCP": lambda: CCP(5, 3, rank=4, order=3),
    "NCP": lambda: NCP(5, 3, rank=4, order=3),
    "NCP-Skip": lambda: NCPSkip(5, 3, rank=4, order=2),
    "double precision": lambda: CCP(5, 3, rank=4, order=3).double(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_verdicts_are_right(name):
    torch.manual_seed(0)
    model = NETWORKS[name]().eval()
    dtype = next(model.parameters()).dtype
    x = torch.randn(3, 5, dtype=dtype)
    labels = model(x).argmax(1)
    statuses = set()
    for eps in (0.02, 0.2, 1.0):
        lower, upper = ball(x, eps)
        for row, verdict in enumerate(verify(trace(model), lower, upper, labels, seconds=0.3)):
            statuses.add(verdict.status)
            low, high, label = lower[row], upper[row], labels[row]
            corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 5)
            places = torch.cat([corners, torch.rand(400, 5, dtype=torch.float64)])
            points = (low + (high - low) * places).to(dtype)
            with torch.no_grad():
                outputs = model(points).double()
            others = torch.arange(3) != label
            gaps = (outputs[:, [label]] - outputs[:, others]).amin(1)
            if verdict.status == "proven":
                assert gaps.min() >= verdict.margin > 0
            if verdict.status == "refuted":
                point = verdict.counterexample
                assert point.dtype == dtype
                assert (point.double() >= low).all()
                assert (point.double() <= high).all()
                assert model(point[None])[0, others].max() >= model(point[None])[0, label]
    assert {"proven", "refuted"} <= statuses


@pytest.mark.parametrize(("lift", "status"), [(0.41, "proven"), (0.38, "refuted")])
def test_branching_decides_what_one_bound_leaves_open(lift, status):
    """x**3 - x over [-1, 1] is at least -2 / 27**0.5, which is -0.3849."""

    class Cubic(nn.Module):
        def forward(self, x):
            return torch.cat([x * x * x - x + lift, 0 * x], 1)

    (verdict,) = verify(Cubic(), -torch.ones(1, 1), torch.ones(1, 1), [0])
    assert verdict.status == status
    if status == "proven":
        assert verdict.boxes > 1
        assert verdict.margin <= lift - 0.3849
    else:
        assert verdict.counterexample.item() == pytest.approx(3**-0.5, abs=0.1)


def test_decides_more_than_margins_do():
    torch.manual_seed(0)
    model = CCP(64, 4, rank=32, order=3)
    x = torch.rand(17, 64)  # too many for margins to solve duals
    labels = model(x).argmax(1)
    lower, upper = ball(x, 0.02)
    at_once = (margins(model, lower, upper, labels) >= 0).all(1)
    verdicts = verify(model, lower, upper, labels, seconds=1.0)
    proven = torch.tensor([verdict.status == "proven" for verdict in verdicts])
    assert (proven | ~at_once).all()
    assert proven.sum() > at_once.sum()


def test_rounding_is_bounded_by_what_it_does_to_the_outputs():
    """Carried forwards by absolute values, the rounding of eight layers would be a hundred times as large."""
    torch.manual_seed(0)
    model = nn.Sequential(
        NCP(1, 4, rank=4, order=3, op=CONV), NCP(4, 4, rank=4, order=3, op=CONV), nn.Flatten(), nn.Linear(144, 2)
    )
    x = torch.rand(1, 1, 6, 6)
    lower, upper = ball(x, 1e-6)
    found, exact = bounds(model, lower, upper), bounds(model, lower, upper, precision=None)
    problem = Problem.of(model, Interval(lower, upper), torch.float32)
    box = Interval(lower, upper)
    forwards = problem.enclose_plainly(box)
    assert (found.width < 0.05 * (forwards.upper - forwards.lower)).all()
    assert (found.width > exact.width).all()
    outputs, true = model(x).double(), model.double()(x.double())
    assert (outputs >= found.lower).all()
    assert (outputs <= found.upper).all()
    assert ((outputs - true).abs() < found.width).all()


def test_a_tie_that_rounding_can_break_is_not_proven():
    """1 + z - 1 - z / 2: the margin is z / 2 exactly, but single precision drops it beside a large number."""

    class Absorbing(nn.Module):
        def __init__(self, large):
            super().__init__()
            self.register_buffer("large", torch.tensor(large))

        def forward(self, x):
            return torch.cat([(x + self.large) - self.large, 0 * x], 1)

    x = torch.full((1, 1), 1e-3)
    assert verify(Absorbing(1.0), *ball(x, 1e-4), [0])[0].status == "proven"
    verdict = verify(Absorbing(1e5), *ball(x, 1e-4), [0])[0]
    assert verdict.status == "refuted"  # in single precision both outputs are 0


def test_verdicts_are_kept_and_continued(tmp_path):
    torch.manual_seed(0)
    model = CCP(4, 3, rank=3, order=2)
    x = torch.randn(5, 4)
    labels, box = model(x).argmax(1), ball(x, 0.05)
    path = tmp_path / "verdicts.jsonl"
    first = verify(model, *box, labels, path=path)
    lines = path.read_text().splitlines()
    assert [json.loads(line)["row"] for line in lines[1:]] == list(range(5))
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])  # interrupted while writing
    again = verify(model, *box, labels, path=path, workers=2)
    assert [verdict.status for verdict in again] == [verdict.status for verdict in first]
    assert len(path.read_text().splitlines()) == 6
    with pytest.raises(ValueError, match="verdicts about another network or other boxes"):
        verify(model, *ball(x, 0.06), labels, path=path)
    path.write_text("{}\n")
    with pytest.raises(ValueError, match="is not a file of verdicts"):
        verify(model, *box, labels, path=path)


class Constant(nn.Module):
    """Class 0 exceeds class 1 by a number minus the input, times a buffer that is not saved."""

    def __init__(self, number, factor=1.0):
        super().__init__()
        self.number = number
        self.register_buffer("factor", torch.tensor([factor]), persistent=False)

    def forward(self, x):
        return torch.cat([x * 0 + self.number, x * self.factor], 1)


def with_epsilon(epsilon):
    network = nn.Sequential(nn.BatchNorm1d(1, eps=epsilon), nn.Linear(1, 2))
    nn.init.constant_(network[1].weight, 0.5)
    nn.init.constant_(network[1].bias, 0.5)
    return network


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Constant(1.0), Constant(-1.0)),
        (Constant(1.0), Constant(1.0, factor=5.0)),
        (nn.Sequential(nn.Identity(), nn.Linear(1, 2)), nn.Sequential(PowerSum(4), nn.Linear(1, 2))),
        (with_epsilon(1e-5), with_epsilon(1e-1)),
        (Constant(1.0), Constant(1.0).double()),
    ],
)
def test_verdicts_are_about_one_network_only(tmp_path, one, other):
    other.load_state_dict(one.state_dict(), strict=False)
    box, path = ball(torch.zeros(1, 1), 0.5), tmp_path / "verdicts.jsonl"
    first = verify(one, *box, [0], path=path)
    assert [found.margin for found in verify(one, *box, [0], path=path)] == [found.margin for found in first]
    with pytest.raises(ValueError, match="verdicts about another network"):
        verify(other, *box, [0], path=path)


def test_infinite_margins_are_kept(tmp_path):
    one_class, box, path = nn.Linear(2, 1), ball(torch.zeros(1, 2), 0.1), tmp_path / "verdicts.jsonl"
    assert [verify(one_class, *box, [0], path=path)[0].margin for _ in range(2)] == [torch.inf, torch.inf]


class Locked(nn.Module):
    """A network that cannot be copied."""

    def __init__(self):
        super().__init__()
        self.inner, self.lock = CCP(4, 3, rank=6, order=3), threading.Lock()

    def forward(self, x):
        return self.inner(x)


def test_threads_leave_the_network_as_it_was():
    torch.manual_seed(0)
    model, x = Locked().train(), torch.randn(60, 4)
    labels, before = model(x).argmax(1), {name: (id(p), p.clone()) for name, p in model.named_parameters()}
    one = verify(model, *ball(x, 0.2), labels, seconds=0.1)
    four = verify(model, *ball(x, 0.2), labels, seconds=0.1, workers=4)
    decided = [(a.status, b.status) for a, b in zip(one, four, strict=True) if "open" not in (a.status, b.status)]
    assert decided
    assert all(a == b for a, b in decided)
    after = dict(model.named_parameters())
    assert {name: id(p) for name, p in after.items()} == {name: number for name, (number, _) in before.items()}
    assert all(isinstance(p, nn.Parameter) and torch.equal(p, before[name][1]) for name, p in after.items())
    assert model.training


def test_bad_questions_are_refused_with_the_rule():
    model, x = CCP(4, 3, rank=3, order=2), torch.zeros(2, 4)
    with pytest.raises(ValueError, match="lower must not exceed upper, but does in 8 of 8 places"):
        verify(model, x + 1, x, [0, 0])
    with pytest.raises(ValueError, match="must be finite"):
        verify(model, x, x + torch.inf, [0, 0])
    with pytest.raises(ValueError, match="labels must be 2 whole numbers from 0 to 2"):
        verify(model, x, x, [0, 3])
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        verify(model, x, x, [0, 0], seconds=0)
    with pytest.raises(ValueError, match="workers must be a whole number of at least 1, got 0"):
        verify(model, x, x, [0, 0], workers=0)
    with pytest.raises(NotPolynomialError, match="relu"):
        verify(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), x, x, [0, 0])


def test_a_network_too_large_for_zonotopes_is_not_proven_for_lack_of_a_counterexample(monkeypatch):
    """All margins count: the first may be positive where another is not."""
    monkeypatch.setattr("pinets.algebra.enclosure._LARGEST", 1)
    monkeypatch.setattr("pinets.algebra._verify.find_counterexample", lambda *_, **__: None)
    torch.manual_seed(0)
    model, x = CCP(4, 3, rank=3, order=2), torch.randn(3, 4)
    for label in range(3):  # each is wrong for some input of the box
        verdicts = verify(model, *ball(x, 30.0), [label] * 3, seconds=0.02)
        assert all(verdict.status == "open" and verdict.margin <= 0 for verdict in verdicts)


def test_a_network_too_large_for_zonotopes_is_decided_by_linear_bounds_and_attacks(monkeypatch):
    monkeypatch.setattr("pinets.algebra.enclosure._LARGEST", 1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), PowerSum(2))
    x = torch.randn(3, 4)
    labels = model(x).argmax(1)
    verdicts = verify(model, *ball(x, 1e-4), labels, seconds=0.1)
    assert [verdict.status for verdict in verdicts] == ["proven"] * 3
    assert all(verdict.status != "proven" for verdict in verify(model, *ball(x, 30.0), labels, seconds=0.1))
