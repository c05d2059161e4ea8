from __future__ import annotations

import pytest
import torch

from pinets.engine.optimization import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Exponential,
    LinearDecay,
    MultiStep,
    OneCycle,
    Plateau,
    Warmup,
)


def optimizer(lr=0.1):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(schedule, epochs, steps_per_epoch=1):
    """The rate of every update of a run."""
    sgd = optimizer()
    attached = schedule.attach(sgd, steps_per_epoch=steps_per_epoch, epochs=epochs)
    found = []
    for _ in range(epochs * steps_per_epoch):
        found.append(sgd.param_groups[0]["lr"])
        sgd.step()
        attached.step()
    return found


def torch_rates(make, epochs):
    sgd = optimizer()
    scheduler = make(sgd)
    found = []
    for _ in range(epochs):
        found.append(sgd.param_groups[0]["lr"])
        sgd.step()
        scheduler.step()
    return found


def test_the_papers_cifar_schedule_equals_torchs():
    expected = torch_rates(lambda sgd: torch.optim.lr_scheduler.MultiStepLR(sgd, [40, 60, 80, 100]), 120)
    assert rates(MultiStep((40, 60, 80, 100)), 120) == pytest.approx(expected, rel=1e-12)


def test_exponential_equals_torchs():
    expected = torch_rates(lambda sgd: torch.optim.lr_scheduler.ExponentialLR(sgd, 0.99), 50)
    assert rates(Exponential(0.99), 50) == pytest.approx(expected, rel=1e-12)


def test_linear_decay_equals_torchs():
    expected = torch_rates(lambda sgd: torch.optim.lr_scheduler.LinearLR(sgd, 1.0, 0.0, total_iters=20), 20)
    assert rates(LinearDecay(), 20) == pytest.approx(expected, rel=1e-9)


def test_warm_up_is_linear_by_step_and_keeps_what_follows():
    found = rates(Warmup(epochs=5, start=0.5, then=MultiStep((6, 8))), 9, steps_per_epoch=10)
    assert found[:50] == pytest.approx([0.1 * (0.5 + 0.5 * step / 50) for step in range(50)])
    assert found[50:] == pytest.approx([0.1] * 10 + [0.01] * 20 + [0.001] * 10)


def test_one_cycle_rises_and_falls_in_straight_lines():
    found = rates(OneCycle(rise=0.25, start=0.1, end=0.0), 4, steps_per_epoch=5)
    assert found[:5] == pytest.approx([0.1 * (0.1 + 0.9 * step / 5) for step in range(5)])
    assert found[5:] == pytest.approx([0.1 * (1 - step / 15) for step in range(15)])


def test_constant():
    assert rates(Constant(), 3) == [0.1] * 3


def test_plateau_waits_two_epochs_without_improvement():
    sgd = optimizer()
    plateau = Plateau(epochs=2, gamma=0.1).attach(sgd, steps_per_epoch=1, epochs=9)
    found = []
    for accuracy in (0.5, 0.6, 0.6, 0.7, 0.69, 0.7, 0.7, 0.1, 0.71):
        plateau.step(accuracy)
        found.append(sgd.param_groups[0]["lr"])
    # bad epochs: 0.6 (one), then an improvement; 0.69 and 0.7 (two: down), 0.7 and 0.1 (two: down)
    assert found == pytest.approx([0.1] * 5 + [0.01] * 2 + [0.001] * 2)


@pytest.mark.parametrize("schedule", [MultiStep((1, 2)), OneCycle(), Warmup(2.0, then=LinearDecay()), Plateau(1)])
def test_a_restored_schedule_goes_on_as_before(schedule):
    scores = [0.1, 0.3, 0.2, 0.4, 0.4, 0.3, 0.5]

    def advance(attached, sgd, scores):
        found = []
        for score in scores:
            sgd.step()
            attached.step(*[score] if isinstance(schedule, Plateau) else [])
            found.append(sgd.param_groups[0]["lr"])
        return found

    first = optimizer()
    whole = schedule.attach(first, steps_per_epoch=2, epochs=4)
    advance(whole, first, scores[:3])
    state, optimizer_state = whole.state_dict(), first.state_dict()
    second = optimizer()
    restored = schedule.attach(second, steps_per_epoch=2, epochs=4)
    second.load_state_dict(optimizer_state)
    restored.load_state_dict(state)
    assert advance(restored, second, scores[3:]) == advance(whole, first, scores[3:])


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiStep((1,), gamma=-2.0),
        lambda: MultiStep((-1.0,)),
        lambda: Exponential(float("nan")),
        lambda: OneCycle(start=-0.1),
        lambda: OneCycle(end=float("inf")),
        lambda: Warmup(start=-1.0),
        lambda: Warmup(epochs=float("nan")),
        lambda: Plateau(epochs=0),
        lambda: Plateau(gamma=1.0),
        lambda: Plateau(floor=-1.0),
        lambda: SGD(lr=0.0),
        lambda: SGD(lr=0.1, momentum=1.0),
        lambda: Adam(lr=0.1, betas=(0.9, 1.0)),
        lambda: AdamW(lr=0.1, weight_decay=-0.1),
    ],
)
def test_values_that_would_turn_a_run_around_are_refused(make):
    with pytest.raises(ValueError, match=r"must be .*, got"):
        make()


@pytest.mark.parametrize("make", [lambda: Warmup(epochs=0), lambda: OneCycle(rise=1.0), lambda: OneCycle(rise=-0.1)])
def test_schedules_that_would_divide_by_zero_are_refused(make):
    with pytest.raises(ValueError, match="got"):
        make()
