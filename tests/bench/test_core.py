from __future__ import annotations

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pinets.bench import core
from pinets.bench.core import Case, CoreBench, Row, bench_core, cases


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


def test_the_grid_is_the_one_asked_for():
    every = cases()
    assert len(every) == len(set(every)) == 3 * 3**4
    assert {case.d for case in every} == {128, 784, 3072}
    assert {case.k for case in every} == {64, 256, 1024}
    assert {case.N for case in every} == {2, 4, 8}
    assert {case.batch for case in every} == {64, 256, 1024}
    assert set(cases(core.QUICK)) < set(every)
    assert [
        case.N for case in cases(only=[("model", "CCP"), ("d", 9), ("k", 9), ("batch", 9), ("N", 5), ("N", 3)])
    ] == [
        5,
        3,
    ]
    with pytest.raises(ValueError, match="unknown variable 'rank'"):
        cases(only=[("rank", 3)])


def rows(seconds: dict[int, float], *, rate: float, k: int = 256, run: str = "forward") -> list[Row]:
    return [Row(Case("CCP", 128, k, n, 256), run, value, value * rate, 5) for n, value in seconds.items()]


def test_the_summary_counts_what_reaches_the_goal():
    measured = rows({2: 1.0}, rate=0.9) + rows({4: 1.0}, rate=0.8) + rows({8: 1.0}, rate=0.2, k=64)
    bench = CoreBench("core", measured, machine={}, skipped=[Case("CCP", 1, 2, 3, 4)])
    assert bench.reached("forward") == (1, 2)
    assert "forward: 1 of 2 cases" in bench.summary()
    assert "lowest 0.80" in bench.summary()
    assert "not measured for lack of time: 1 cases, from CCP d=1 k=2 N=3 batch=4 on" in bench.summary()


@pytest.mark.parametrize("power, growth", [(1, 1.0), (2, 2.0)])
def test_growth_tells_linear_from_quadratic(power, growth):
    bench = CoreBench("core", rows({n: 0.5 + n**power for n in (2, 4, 8)}, rate=1), machine={})
    assert bench.growth("forward") == [pytest.approx(growth)]
    assert CoreBench("core", rows({2: 1.0, 4: 2.0}, rate=1), machine={}).growth("forward") == []


def test_a_run_reports_every_case_within_its_time():
    which = [Case("CCP", 8, 4, n, 2) for n in (1, 2)]
    started, finished = [], []
    bench = bench_core(
        which, seconds=60, on_start=lambda case, left: started.append((case, left)), on_row=finished.append
    )
    assert [case for case, _ in started] == which
    assert started[0][1] > started[1][1] > 0
    assert finished == bench.rows
    assert [(row.case, row.run) for row in bench.rows] == [(c, r) for c in which for r in core.GOALS]
    assert all(row.rounds >= 5 and row.seconds > 0 and row.bare_seconds > 0 for row in bench.rows)
    content = json.loads(json.dumps(bench.to_json()))
    assert len(content["rows"]) == 4
    assert content["machine"]["torch"] == torch.__version__
    assert (content["benchmark"], content["goals"], content["not_measured"]) == ("core", core.GOALS, [])
    assert content["rows"][0]["rate"] == pytest.approx(bench.rows[0].bare_seconds / bench.rows[0].seconds)


def test_cases_without_time_are_listed_not_dropped():
    which = [Case("CCP", 8, 4, n, 2) for n in (1, 2)]
    bench = bench_core(which, seconds=0)
    assert (bench.rows, bench.skipped) == ([], which)
    assert [case["N"] for case in bench.to_json()["not_measured"]] == [1, 2]
