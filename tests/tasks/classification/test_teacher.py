from __future__ import annotations

from math import exp, log

import pytest
import torch

from pinets import tasks as recipes
from pinets.engine import make_accelerator
from pinets.engine.trained import TrainedRun
from pinets.tasks.classification.teacher import Lesson, Teacher

TINY = ["model.widths=4,4", "epochs=1", "batch=20", "precision=no", "channels_last=no", "range_penalty=none"]


@pytest.fixture
def teacher(cifar, tmp_path):
    """The folder of a trained run."""
    recipe = recipes.get_recipe("cifar10_strict_relu", "small", TINY)
    recipes.train(recipe, tmp_path, data_dir=cifar)
    return recipes.run_folder(recipe, tmp_path).path


def test_the_loss_is_its_formula():
    network = torch.nn.Linear(3, 2)
    inputs, scores = torch.randn(4, 3), torch.randn(4, 2)
    found = Lesson(network, weight=0.9, temperature=3.0).loss(inputs, scores)
    by_hand = 0.0
    for answers, own in zip(network(inputs).tolist(), scores.tolist(), strict=True):
        total, scale = sum(exp(a / 3) for a in answers), log(sum(exp(s / 3) for s in own))
        by_hand -= sum(exp(a / 3) / total * (s / 3 - scale) for a, s in zip(answers, own, strict=True))
    assert float(found) == pytest.approx(9 * by_hand / 4, rel=1e-5)


def test_a_network_learns_its_teachers_scores_and_the_teacher_stays(cifar, teacher):
    recipe = recipes.get_recipe(
        "cifar10_strict", "small", [*TINY, f"teacher.run={teacher}", "teacher.weight=1", "average=0"]
    )
    accelerator, data = make_accelerator(), recipe.load(cifar)
    task = recipe.build(data, accelerator)
    recipe.prepare_training(task, data, accelerator)
    before = TrainedRun(teacher).network().state_dict()
    batch = next(iter(task.batches))
    losses = [float(task.train_step(batch)["teacher_loss"]) for _ in range(30)]
    assert losses[-1] < losses[0]
    assert all(torch.equal(tensor, before[name]) for name, tensor in task._teacher.network.state_dict().items())


def test_labels_have_the_rest(cifar, teacher):
    logged = []
    for weight in (0.25, 1):
        recipe = recipes.get_recipe(
            "cifar10_strict", "small", [*TINY, f"teacher.run={teacher}", f"teacher.weight={weight}"]
        )
        accelerator, data = make_accelerator(), recipe.load(cifar)
        task = recipe.build(data, accelerator)
        recipe.prepare_training(task, data, accelerator)
        batch = next(iter(task.batches))
        if not logged:
            labels = torch.nn.functional.cross_entropy(task.network.train()(batch[0]), batch[1], label_smoothing=0.05)
        logged.append({name: float(value) for name, value in task.train_step(batch).items()})
    quarter, whole = logged
    assert whole["loss"] == pytest.approx(whole["teacher_loss"])
    assert quarter["teacher_loss"] == pytest.approx(whole["teacher_loss"])
    assert quarter["loss"] == pytest.approx(0.75 * float(labels.detach()) + 0.25 * whole["loss"], rel=1e-4)


def test_a_taught_run_trains_and_is_read_without_its_teacher(cifar, teacher, tmp_path):
    moved = tmp_path / "teacher"
    moved.symlink_to(teacher)
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, f"teacher.run={moved}"])
    recipes.train(recipe, tmp_path, data_dir=cifar)
    moved.unlink()
    run = recipes.run_folder(recipe, tmp_path)
    assert any("teacher_loss" in line for line in run.metrics())
    TrainedRun(run.path).network()(torch.randn(1, 3, 32, 32))
    assert recipes.evaluate(run.path) == run.result()["test"]


def test_teachers_that_do_not_fit_are_refused_before_training(cifar, teacher, tmp_path):
    with pytest.raises(ValueError, match=r"weight must be .* at most 1.*, got 2"):
        Teacher("runs/x", weight=2)
    with pytest.raises(ValueError, match=r"temperature must be above 0.*, got 0"):
        Teacher("runs/x", temperature=0)
    inputs = TrainedRun(teacher).inputs
    other = type(inputs)((1, 28, 28), inputs.classes, inputs.preprocessing)
    with pytest.raises(ValueError, match=r"the shape of .* is \(3, 32, 32\), and that of the data \(1, 28, 28\)"):
        Teacher(str(teacher)).build(other)
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, f"teacher.run={tmp_path / 'nowhere'}"])
    (wrong,) = recipe.check(cifar).mismatches
    assert wrong.startswith("teacher: ")
    assert "nowhere" in wrong
