from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from pinets.engine.optimization import SGD, Adam, Constant, MultiStep, Plateau, Warmup
from pinets.engine.values import RecipeError, from_json, parse, set_values, to_json
from pinets.tasks import get_recipe
from pinets.tasks.classification.recipe import Teacher

SGD_FIRST = SGD(lr=0.1, momentum=0.9)
STEPS = MultiStep((40, 60))


@dataclass(frozen=True)
class Toy:
    optimizer: SGD | Adam = SGD_FIRST
    schedule: MultiStep | Plateau | Warmup = STEPS
    epochs: int = 120
    precision: Literal["no", "bf16"] = "no"
    limit: int | None = None
    flip: bool = True
    name: str = "toy"
    depths: tuple[int, ...] = (2, 2)

    def __post_init__(self):
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")


@pytest.mark.parametrize(
    "change, expected",
    [
        ("optimizer.lr=0.05", Toy(optimizer=SGD(lr=0.05, momentum=0.9))),
        ("optimizer.lr=1", Toy(optimizer=SGD(lr=1.0, momentum=0.9))),
        ("optimizer.nesterov=true", Toy(optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True))),
        ("epochs=12", Toy(epochs=12)),
        ("precision=bf16", Toy(precision="bf16")),
        ("limit=500", Toy(limit=500)),
        ("limit=none", Toy()),
        ("flip=no", Toy(flip=False)),
        ("name=other=name", Toy(name="other=name")),
        ("depths=2,2,1,1", Toy(depths=(2, 2, 1, 1))),
        ("depths=(3)", Toy(depths=(3,))),
        ("schedule.milestones=4,6.5", Toy(schedule=MultiStep((4.0, 6.5)))),
        ("schedule=Plateau", Toy(schedule=Plateau())),
        ("optimizer=Adam", Toy(optimizer=Adam(lr=0.1))),
    ],
)
def test_changes_are_typed(change, expected):
    assert set_values(Toy(), [change]) == expected


def test_changes_apply_from_left_to_right():
    assert set_values(Toy(), ["schedule=Plateau", "schedule.epochs=5", "epochs=2", "epochs=3"]) == Toy(
        schedule=Plateau(epochs=5), epochs=3
    )


def test_a_group_of_another_kind_keeps_what_it_can_hold():
    warm = Toy(schedule=Warmup(epochs=5.0))
    assert set_values(warm, ["schedule=Plateau"]).schedule == Plateau()  # counts in whole epochs
    then = Warmup(then=MultiStep((1,)))
    assert set_values(Toy(schedule=then), ["schedule=Warmup"]).schedule == then
    with pytest.raises(
        RecipeError, match=r"schedule=MultiStep needs schedule\.milestones as well: set it after schedule"
    ):
        set_values(warm, ["schedule=MultiStep"])
    steps = ["schedule=MultiStep", "epochs=9", "schedule.milestones=3,4", "schedule.gamma=0.5"]
    assert set_values(warm, steps).schedule == MultiStep((3, 4), gamma=0.5)
    with pytest.raises(RecipeError, match=r"schedule\.milestones must be .*, got 'soon'"):
        set_values(warm, ["schedule=MultiStep", "schedule.milestones=soon"])
    with pytest.raises(RecipeError, match="schedule: gamma must be above 0 and below 1, got 2"):
        set_values(Toy(schedule=MultiStep((1,), gamma=2.0)), ["schedule=Plateau"])


@pytest.mark.parametrize(
    "change, message",
    [
        ("optimiser.lr=1", "there is no key 'optimiser'; did you mean 'optimizer'"),
        ("optimizer.momentun=1", r"there is no key 'optimizer\.momentun'; did you mean 'optimizer\.momentum'"),
        ("epoch=3", "did you mean 'epochs'"),
        ("epochs=3.5", "epochs must be a whole number, got '3.5'"),
        ("epochs=true", "epochs must be a whole number, got 'true'"),
        ("optimizer.lr=fast", r"optimizer\.lr must be a number, got 'fast'"),
        ("flip=maybe", "flip must be true or false, got 'maybe'"),
        ("precision=fp8", "precision must be 'no' or 'bf16', got 'fp8'"),
        ("limit=some", "limit must be a whole number or none, got 'some'"),
        ("depths=2,x", "depths must be a list of values, each a whole number, got '2,x'"),
        ("optimizer=5", r"optimizer must be SGD \(lr, momentum, weight_decay, nesterov\) or Adam"),
        ("epochs.more=5", "epochs is a single value: it has no key 'more'"),
        ("epochs=0", "epochs: epochs must be at least 1, got 0"),
        ("epochs", "must have the form key=value, got 'epochs'"),
        ("=3", "must have the form key=value"),
    ],
)
def test_wrong_changes_say_what_is_wrong(change, message):
    with pytest.raises(RecipeError, match=message):
        set_values(Toy(), [change])


@pytest.mark.parametrize(
    "toy",
    [Toy(), Toy(limit=3, schedule=Warmup(5, then=MultiStep((1, 2)))), Toy(optimizer=Adam(lr=0.1), schedule=Plateau(3))],
)
def test_json_there_and_back(toy):
    assert from_json(Toy, json.loads(json.dumps(to_json(toy)))) == toy


def test_json_is_checked_as_commands_are():
    content = to_json(Toy())
    with pytest.raises(RecipeError, match=r"recipe\.epochs must be a whole number, got '12'"):
        from_json(Toy, {**content, "epochs": "12"})
    with pytest.raises(RecipeError, match=r"there is no key 'recipe\.epoch'; did you mean 'recipe\.epochs'"):
        from_json(Toy, {**content, "epoch": 12})
    with pytest.raises(RecipeError, match=r"recipe\.optimizer must be SGD"):
        from_json(Toy, {**content, "optimizer": {**content["optimizer"], "kind": "LBFGS"}})


def test_nested_kinds_are_kept_apart():
    warm = replace(Toy(), schedule=Warmup(then=Constant()))
    assert from_json(Toy, to_json(warm)).schedule.then == Constant()


def test_text_stays_text():
    assert parse(str, "12", "name") == "12"


def test_nesterov_needs_a_momentum():
    with pytest.raises(ValueError, match="nesterov needs a momentum above 0, got 0"):
        SGD(lr=0.1, nesterov=True)


def test_a_key_that_stands_further_inside_is_found():
    with pytest.raises(RecipeError, match=r"there is no key 'lr'; did you mean 'optimizer\.lr'\?"):
        set_values(Toy(), ["lr=0.1"])
    with pytest.raises(RecipeError, match=r"there is no key 'milestones'; did you mean 'schedule\.milestones'\?"):
        set_values(Toy(), ["milestones=3"])


def test_a_part_that_a_recipe_does_not_have_begins_with_one_of_its_values():
    plain = get_recipe("cifar10_resnet18", "small")
    assert plain.range_penalty is None
    begun = set_values(plain, ["range_penalty.limit=3", "range_penalty.weight=0.5"]).range_penalty
    assert (begun.limit, begun.weight) == (3.0, 0.5)
    assert set_values(plain, ["teacher.run=runs/x", "teacher.weight=0.5"]).teacher == Teacher("runs/x", 0.5)
    assert set_values(plain, ["teacher.weight=0.5", "teacher.run=runs/x"]).teacher == Teacher("runs/x", 0.5)
    with pytest.raises(RecipeError, match=r"teacher=Teacher needs teacher\.run as well"):
        set_values(plain, ["teacher.weight=0.5"])
    with pytest.raises(RecipeError, match=r"no key .*range_penalty\.limi.*; did you mean .*limit"):
        set_values(plain, ["range_penalty.limi=3"])
    with pytest.raises(
        RecipeError, match=r"robust is none: choose first what it is, robust=Robust or robust=Certified"
    ):
        set_values(plain, ["robust.eps=0.1"])
    assert set_values(plain, ["robust=Robust", "robust.eps=0.1"]).robust.eps == 0.1
