from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch

from pinets.engine.checkpoint import CheckpointError, Checkpoints
from pinets.engine.loop import Plan, fit, restore_networks
from pinets.engine.optimization import Constant
from pinets.engine.run import RunFolder


def weights(task):
    return torch.cat([parameter.detach().flatten() for parameter in task.network.parameters()])


def start(folder):
    run = RunFolder(folder)
    run.start({"kind": "toy"}, processes=1)
    return run


def test_a_classifier_learns(toy, tmp_path):
    result = toy.train(tmp_path / "run")
    assert result["test"]["accuracy"] > 0.95
    assert result["validation"] == result["test"]  # the toy's splits are the same samples
    assert result["steps"] == 24
    assert result["parameters"] == {"model": (2 * 9 + 1) * 6 + 12 + (6 * 9 + 1) * 6 + 97 * 3}


def test_the_test_split_is_touched_once_and_last(toy, accelerator, tmp_path):
    task = toy.classifier(accelerator)
    evaluate, asked = task.evaluate, []
    task.evaluate = lambda split: (asked.append(split), evaluate(split))[1]
    fit(task, toy.PLAN, start(tmp_path), accelerator)
    assert asked == ["validation"] * 3 + ["test"]


def test_the_log_has_every_epoch_and_the_mean_of_all_steps(toy, accelerator, tmp_path):
    task = toy.classifier(accelerator)
    step, losses = task.train_step, []

    def train_step(batch):
        metrics = step(batch)
        losses.append(float(metrics["loss"]))
        return metrics

    task.train_step = train_step
    run = start(tmp_path)
    fit(task, Plan(steps=20, steps_per_epoch=8, log_every=3, checkpoint_every=100), run, accelerator)
    rows = run.metrics("train")
    ends = [3, 6, 8, 9, 12, 15, 16, 18, 20]
    assert [row["step"] for row in rows] == ends
    assert [row["epoch"] for row in rows] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    means = [sum(losses[a:b]) / (b - a) for a, b in pairwise([0, *ends])]
    assert [row["loss"] for row in rows] == pytest.approx(means)
    assert [(row["step"], row["epoch"]) for row in run.metrics("validation")] == [(8, 1), (16, 2), (20, 3)]
    assert [(row["step"], row["epoch"]) for row in run.metrics("test")] == [(20, 3)]


def test_tensorboard_gets_the_same_numbers(toy, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    toy.train(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    rows = RunFolder(tmp_path / "run").metrics("validation")
    found = [(event.step, event.value) for event in events.Scalars("validation/loss")]
    assert found == [(row["step"], pytest.approx(row["loss"], rel=1e-6)) for row in rows]


def test_accumulation_gives_the_same_as_the_whole_batch(toy, tmp_path):
    plain = {"norm": False, "dropout": 0.0, "schedule": Constant()}
    plan = Plan(steps=6, steps_per_epoch=6)
    tasks = []
    for parts in (1, 3):
        accelerator = toy.make_accelerator(accumulate=parts)
        task = toy.classifier(accelerator, **plain)
        fit(task, plan, start(tmp_path / str(parts)), accelerator)
        tasks.append(task)
    torch.testing.assert_close(weights(tasks[0]), weights(tasks[1]), rtol=1e-4, atol=1e-6)


def test_mixed_precision_trains_and_weights_stay_float32(toy, tmp_path):
    accelerator = toy.make_accelerator(precision="bf16")
    task = toy.classifier(accelerator)
    dtypes = set()
    task.network[4].register_forward_hook(lambda module, inputs, output: dtypes.add(output.dtype))
    result = fit(task, toy.PLAN, start(tmp_path), accelerator)
    assert dtypes == {torch.bfloat16}  # in training and in evaluation
    assert result["test"]["accuracy"] > 0.9
    assert {parameter.dtype for parameter in task.network.parameters()} == {torch.float32}
    task = toy.classifier(toy.make_accelerator())  # a run of another precision in the same process
    assert task.network(torch.randn(2, 2, 4, 4)).dtype == torch.float32


def test_a_finished_run_is_only_tested_again(toy, tmp_path, monkeypatch):
    first = toy.train(tmp_path / "run")
    monkeypatch.setattr(toy.Classification, "train_step", lambda *_: pytest.fail("trained again"))
    again = toy.train(tmp_path / "run")
    assert again["test"] == first["test"]
    assert again["validation"] == first["validation"]


def test_the_layout_of_the_optimizers_state_survives(toy, accelerator, tmp_path):
    run = start(tmp_path)
    fit(toy.classifier(accelerator), toy.PLAN, run, accelerator)
    task = toy.classifier(accelerator)
    fit(task, toy.PLAN, run, accelerator)
    convolution = task.network[4].weight
    momentum = task.optimizers["model"].state[convolution]["momentum_buffer"]
    assert momentum.stride() == convolution.stride()
    assert not momentum.is_contiguous()


def test_weights_alone_can_be_restored(toy, accelerator, tmp_path):
    run, trained = start(tmp_path), toy.classifier(accelerator)
    fit(trained, toy.PLAN, run, accelerator)
    fresh = toy.classifier(accelerator)
    restore_networks(fresh, Checkpoints(run.checkpoints_folder, run.owner()).newest(), accelerator)
    assert fresh.evaluate("test") == trained.evaluate("test")


def test_a_checkpoint_of_another_model_is_refused_by_file_and_name(toy, accelerator, tmp_path):
    run = start(tmp_path)
    fit(toy.classifier(accelerator), toy.PLAN, run, accelerator)
    with pytest.raises(
        CheckpointError, match=r"shared\.safetensors is of another model: model\.1\.weight is not part of it"
    ):
        fit(toy.classifier(accelerator, norm=False), toy.PLAN, run, accelerator)
    with pytest.raises(
        CheckpointError, match=r"has the networks \['model'\], not \['average', 'critic', 'generator'\]"
    ):
        fit(toy.ToyGan(accelerator), toy.PLAN, run, accelerator)


def test_a_harmed_checkpoint_costs_only_the_steps_since_the_one_before(toy, accelerator, tmp_path, capsys):
    run, other = start(tmp_path / "harmed"), start(tmp_path / "whole")
    plan = Plan(steps=12, steps_per_epoch=4, checkpoint_every=4)
    fit(toy.classifier(accelerator), plan, run, accelerator)
    newest = run.checkpoints_folder / "step-00000012" / "shared.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    resumed = toy.classifier(accelerator)
    fit(resumed, plan, run, accelerator)
    whole = toy.classifier(accelerator)
    fit(whole, plan, other, accelerator)
    assert "step-00000012/shared.safetensors is truncated" in capsys.readouterr().err
    assert torch.equal(weights(resumed), weights(whole))
    assert [row["step"] for row in run.metrics("train")] == [4, 8, 12]


def test_a_log_that_lost_lines_is_refused(toy, accelerator, tmp_path):
    run = start(tmp_path)
    fit(toy.classifier(accelerator), toy.PLAN, run, accelerator)
    run.metrics_file.write_text("")
    with pytest.raises(ValueError, match=r"metrics\.jsonl has 0 bytes, fewer than"):
        fit(toy.classifier(accelerator), toy.PLAN, run, accelerator)


def test_two_networks_and_a_moving_average(toy, tmp_path):
    result = toy.train(tmp_path / "run", "gan")
    assert result["parameters"] == {"generator": 50, "critic": 3, "average": 50}
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert row.keys() >= {"critic_loss", "generator_loss", "lr_generator", "lr_critic"}


def test_nonsense_plans_are_refused():
    with pytest.raises(ValueError, match="steps_per_epoch must be at least 1, got 0"):
        Plan(steps=3, steps_per_epoch=0)


class Listed(list):
    """Batches as a list, with the state that a run needs."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_batches_without_end_or_state_are_refused_at_once(toy, accelerator, tmp_path):
    task = toy.classifier(accelerator)
    task.batches = [next(iter(task.batches))]
    with pytest.raises(TypeError, match=r"need state_dict and load_state_dict, .* got list"):
        fit(task, toy.PLAN, start(tmp_path / "list"), accelerator)
    task.batches = Listed()
    with pytest.raises(ValueError, match="Listed, are exhausted"):
        fit(task, toy.PLAN, start(tmp_path / "empty"), accelerator)


def test_metrics_may_be_tensors(toy, accelerator, tmp_path):
    task = toy.classifier(accelerator)
    evaluate = task.evaluate
    task.evaluate = lambda split: {name: torch.tensor(value) for name, value in evaluate(split).items()}
    run = start(tmp_path)
    result = fit(task, Plan(steps=2, steps_per_epoch=2), run, accelerator)
    assert isinstance(result["test"]["accuracy"], float)
    assert run.result()["test"] == pytest.approx(result["test"])


def test_a_plan_is_of_whole_updates():
    with pytest.raises(ValueError, match=r"steps must be a whole number of updates, got 7\.5"):
        Plan(steps=7.5, steps_per_epoch=1)
