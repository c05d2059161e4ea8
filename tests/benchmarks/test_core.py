from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import core
from benchmarks.core import Case, growth, measure, summary
from benchmarks.rows import Row


def flops(call) -> int:
    with FlopCounterMode(display=False) as counter:  # counts matrix products only
        call()
    return counter.get_total_flops()


@pytest.fixture(params=["CCP", "NCP", "NCPSkip"])
def case(request):
    return Case(request.param, d=12, k=6, N=4, batch=5)


@pytest.fixture
def setting(case):
    model = core.MODELS[case.model](case.d, core.OUTPUTS, rank=case.k, order=case.N)
    z, state = torch.randn(case.batch, case.d), torch.randn(case.batch, case.k, requires_grad=True)
    return model, z, state


def test_the_bare_products_are_those_of_the_model(case, setting):
    model, z, state = setting
    bare = flops(lambda: core.bare_products(model, z, state))
    assert bare == flops(lambda: model(z))
    assert bare == 2 * case.multiplications


def test_the_bare_gradients_are_those_of_the_model(setting):
    model, z, state = setting
    weights = list(model.parameters())
    outputs = core.bare_products(model, z, state)
    ones = [torch.ones_like(output) for output in outputs]
    bare = flops(lambda: torch.autograd.grad(outputs, [*weights, state], ones, allow_unused=True))
    out = model(z)
    assert bare == flops(lambda: torch.autograd.grad(out, weights, torch.ones_like(out)))


def test_nothing_but_products_runs(setting):
    model, z, state = setting
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        core.bare_products(model, z, state)
    names = {event.key for event in profile.key_averages()}
    assert not {"aten::mul", "aten::add", "aten::addcmul"} & names


def test_the_grid():
    assert len(core.FULL) == len(set(core.FULL)) == 3 * 3**4
    assert {case.d for case in core.FULL} == {128, 784, 3072}
    assert {case.k for case in core.FULL} == {64, 256, 1024}
    assert {case.N for case in core.FULL} == {2, 4, 8}
    assert {case.batch for case in core.FULL} == {64, 256, 1024}
    assert set(core.QUICK) < set(core.FULL)


def rows(milliseconds: dict[int, float], *, rate: float, k: int = 256) -> list[Row]:
    details = {"model": "CCP", "d": 128, "k": k, "batch": 256, "kind": "forward"}
    return [Row("", {"eager ms": ms, "eager rate": rate}, (), {**details, "N": n}) for n, ms in milliseconds.items()]


def test_the_summary_counts_what_reaches_the_goal_where_products_dominate():
    text = summary(rows({2: 1.0}, rate=0.9) + rows({4: 1.0}, rate=0.8) + rows({8: 1.0}, rate=0.2, k=64))
    assert "forward, eager: 1 of 2 cases" in text
    assert "lowest 0.80" in text


@pytest.mark.parametrize("power, expected", [(1, 1.0), (2, 2.0)])
def test_growth_tells_linear_from_quadratic(power, expected):
    assert growth(rows({n: 0.5 + n**power for n in (2, 4, 8)}, rate=1)) == [pytest.approx(expected)]
    assert growth(rows({2: 1.0, 4: 2.0}, rate=1)) == []


@pytest.mark.parametrize("compiled", [False, True])
def test_a_case_has_a_row_for_either_pass(compiled):
    forward, both = measure(Case("CCP", 8, 4, 2, 3), seconds=0, compiled=compiled, least=2)
    assert (forward.case, both.case) == tuple(f"CCP d=8 k=4 N=2 batch=3, {kind}" for kind in core.GOALS)
    for row in (forward, both):
        assert len(row.figures) == (6 if compiled else 3)
        for way in ("eager", "compiled")[: compiled + 1]:
            ratio = row.figures[f"{way} bare ms"] / row.figures[f"{way} ms"]
            assert row.figures[f"{way} rate"] == pytest.approx(ratio)
        assert row.goals == ()  # calls and not products dominate here


def test_only_compiled_models_have_a_goal():
    case = Case("CCP", 1, 256, 1, 256)
    eager, compiled = (measure(case, seconds=0, compiled=way, least=1)[0] for way in (False, True))
    assert eager.goals == ()
    assert [str(goal) for goal in compiled.goals] == ["compiled rate >= 0.85"]
