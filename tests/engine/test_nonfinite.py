from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets.engine.checkpoint import Checkpoints
from pinets.engine.loop import fit
from pinets.engine.nonfinite import NonFiniteError, first_non_finite_layer
from pinets.engine.run import RunFolder


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.start({"kind": "toy"}, processes=1)
    return folder


def test_the_step_and_the_layer_are_named_and_the_last_checkpoint_kept(toy, accelerator, run):
    task = toy.classifier(accelerator)
    task.network[2] = toy.Break(at=6)
    with pytest.raises(NonFiniteError, match=r"step 6: the loss is nan.*model\.2 \(Break\).*step-00000003"):
        fit(task, toy.PLAN, run, accelerator)
    checkpoint = Checkpoints(run.checkpoints_folder, run.owner()).newest()
    assert checkpoint.step == 3
    assert all(torch.isfinite(weight).all() for weight in task.network.parameters())  # the bad loss never reached them
    assert not run.finished


def test_weights_that_broke_in_an_earlier_update_are_told_from_a_layer_that_breaks(toy, accelerator, run):
    task = toy.classifier(accelerator)
    with torch.no_grad():
        task.network[4].weight[0, 0, 0, 0] = float("inf")
    with pytest.raises(
        NonFiniteError, match=r"step 1.*model\.4 \(Conv2d; its own weight is not finite\).*no checkpoint"
    ):
        fit(task, toy.PLAN, run, accelerator)


def test_broken_weights_are_never_saved(toy, accelerator, run):
    """A gradient can be infinite where the loss is not; the next loss would show it, but a checkpoint comes first."""
    task = toy.classifier(accelerator)
    step = task.train_step
    calls = 0

    def train_step(batch):
        nonlocal calls
        calls += 1
        metrics = step(batch)
        if calls == 6:
            with torch.no_grad():
                task.network[0].bias[1] = float("nan")
        return metrics

    task.train_step = train_step
    with pytest.raises(NonFiniteError, match=r"step 6: the weights.*model\.0\.bias.*step-00000003"):
        fit(task, toy.PLAN, run, accelerator)
    assert [folder.name for folder in Checkpoints(run.checkpoints_folder, run.owner()).folders()] == ["step-00000003"]


def test_a_task_that_does_not_check_is_stopped_too(toy, accelerator, run):
    task = toy.classifier(accelerator)
    task.train_step = lambda batch: {"loss": torch.tensor(float("inf"))}
    with pytest.raises(NonFiniteError, match=r"step 1: the step returned loss inf; all layers are finite"):
        fit(task, toy.PLAN, run, accelerator)


class BreakByChance(nn.Module):
    """Gives what is not a number in one of eight forward passes, by the random numbers it draws."""

    def forward(self, x):
        return x / 0 if torch.rand(()) < 1 / 8 else x


def test_a_layer_that_breaks_by_chance_is_found(toy, accelerator, run):
    """The step is repeated with the random numbers it had."""
    task = toy.classifier(accelerator)
    task.network[2] = BreakByChance()
    with pytest.raises(NonFiniteError, match=r"the first layer to give it is model\.2 \(BreakByChance\)"):
        fit(task, toy.PLAN, run, accelerator)


def test_what_does_not_happen_again_is_blamed_on_nothing(toy, accelerator, run):
    task = toy.classifier(accelerator)
    task.network[2] = toy.Break(at=6)
    task.network[2].register_forward_hook(lambda layer, *_: setattr(layer, "at", 100) if layer.calls == 6 else None)
    with pytest.raises(
        NonFiniteError, match=r"step 6: .*; it did not happen again when the step was repeated; the last"
    ):
        fit(task, toy.PLAN, run, accelerator)


def test_the_innermost_first_layer_is_found(toy):
    network = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Identity(), toy.Break(at=1), nn.Linear(2, 2)))
    with first_non_finite_layer({"net": network}) as found:
        network(torch.ones(1, 2))
    assert found == ["net.1.1 (Break)"]


def test_a_bad_input_is_told_from_a_bad_layer():
    network = nn.Sequential(nn.Linear(2, 2))
    with first_non_finite_layer({"net": network}) as found:
        network(torch.full((1, 2), float("nan")))
    assert found == ["net.0 (Linear; its input is already not finite)"]


def test_no_hook_stays_behind():
    network = nn.Sequential(nn.Linear(2, 2))
    with first_non_finite_layer({"net": network}):
        pass
    assert not network[0]._forward_hooks
