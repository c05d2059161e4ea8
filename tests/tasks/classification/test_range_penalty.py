from __future__ import annotations

from itertools import islice
from math import log

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pinets import create_model
from pinets import tasks as recipes
from pinets.engine import compile_networks, make_accelerator
from pinets.engine.trained import TrainedRun
from pinets.tasks.classification.range_penalty import (
    BatchStatistics,
    Damage,
    LayerOutputs,
    RangePenalty,
    matching_layers,
)

TINY = ["model.widths=4,4", "epochs=1", "batch=20", "precision=no", "channels_last=no"]


def test_the_penalty_is_its_formula_and_pulls_large_values_down():
    outputs = [torch.randn(4, 3).mul(5).requires_grad_(), torch.randn(2, 7).mul(5).requires_grad_()]
    penalty = RangePenalty(weight=0.3, limit=4.0).of(outputs)
    by_hand = sum(
        sum(log(1 + max(abs(float(v)) - 4, 0) ** 2) for v in y.detach().flatten()) / y.numel() for y in outputs
    )
    assert float(penalty.detach()) == pytest.approx(0.3 * by_hand, rel=1e-5)
    penalty.backward()
    for y in outputs:
        large = y.detach().abs() > 4
        assert torch.equal(y.grad.sign(), torch.where(large, y.detach().sign(), 0))


def test_over_images_one_large_value_counts_as_much_as_many():
    one, many = torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4)
    one[0, 1, 2, 3] = 4 + 48**0.5
    many[0] = 5.0  # 48 values, each 1 above the limit
    penalty = RangePenalty(weight=0.3, limit=4.0, over="images")
    for outputs in (one, many):
        assert float(penalty.of([outputs])) == pytest.approx(0.3 * log(1 + 48) / 2, rel=1e-5)
    by_values = RangePenalty(weight=0.3, limit=4.0)
    assert float(by_values.of([one])) < 0.15 * float(by_values.of([many]))


@pytest.mark.parametrize("over", ["values", "images"])
def test_an_output_whose_square_overflows_has_a_finite_penalty(over):
    output = torch.tensor([[0.0, 1e30], [0.0, 0.0]], requires_grad=True)
    penalty = RangePenalty(weight=1.0, limit=4.0, over=over).of([output])
    assert float(penalty.detach()) == pytest.approx(60 * log(10) / (4 if over == "values" else 2), rel=1e-5)
    penalty.backward()
    assert output.grad.isfinite().all()
    assert output.grad[0, 1] > 0


def test_outputs_are_kept_while_recording_only():
    network = create_model("strict_convnet", widths=(4, 4))
    layers = LayerOutputs(matching_layers(network, "blocks.*"))
    x = torch.randn(2, 3, 8, 8)
    network(x)
    with layers.recording() as outputs:
        features = network.forward_features(x)
    network(x)
    assert len(outputs) == 2
    assert torch.equal(outputs[-1], features)


def test_damaged_pixels_stay_between_black_and_twice_white():
    torch.manual_seed(0)
    black, white = torch.tensor([-2.0, -1.0]).view(2, 1, 1), torch.tensor([2.0, 5.0]).view(2, 1, 1)
    pixels = torch.rand(200, 2, 6, 6)
    damaged = (Damage(black, white)(black + pixels * (white - black)) - black) / (white - black)
    assert damaged.min() > -1e-6
    assert 1.5 < damaged.max() < 2
    likeness = torch.stack(
        [torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1] for a, b in zip(pixels, damaged, strict=True)]
    )
    assert likeness.min() < -0.9  # a negative
    assert likeness.max() > 0.9  # hardly any noise
    assert (likeness.abs() < 0.3).sum() > 20  # mostly noise


def test_images_are_normalised_by_the_statistics_of_another_batch():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)).double()
    nn.init.normal_(network[1].weight), nn.init.normal_(network[1].bias)
    statistics = BatchStatistics(network)
    first, second = torch.randn(9, 3, 8, 8, dtype=torch.double), torch.randn(5, 3, 8, 8, dtype=torch.double)
    with statistics.doing("keep"):
        network(first)
    with statistics.doing("use"):
        found = network.eval()(second)
    x, y = network[0](first), network[0](second)
    scaled = (y - x.mean((0, 2, 3), keepdim=True)) / (x.var((0, 2, 3), correction=0, keepdim=True) + 1e-5).sqrt()
    expected = scaled * network[1].weight.view(-1, 1, 1) + network[1].bias.view(-1, 1, 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    found.square().sum().backward()  # smaller weights would make no difference, and the gradient knows it
    along = (network[0].weight.grad * network[0].weight).sum()
    assert abs(along) < 1e-4 * network[0].weight.grad.norm() * network[0].weight.norm()


def test_damaged_images_are_penalised_and_leave_the_statistics_alone(cifar):
    penalties, statistics = [], []
    for share in (0, 0.5):
        options = [*TINY, "range_penalty.limit=0.1", f"range_penalty.damaged={share}"]
        recipe = recipes.get_recipe("cifar10_strict", "small", options)
        accelerator, data = make_accelerator(), recipe.load(cifar)
        task = recipe.build(data, accelerator)
        recipe.prepare_training(task, data, accelerator)
        penalties.append(float(task.train_step(next(iter(task.batches)))["range_penalty"]))
        statistics.append(task.network.blocks[1].norm.running_mean)
        assert task.network.training
    assert penalties[1] > 1.2 * penalties[0]
    assert torch.equal(*statistics)


def test_a_pattern_does_not_reach_into_layers():
    network = create_model("strict_convnet", widths=(4, 4))
    assert matching_layers(network, "blocks.*") == list(network.blocks)
    assert matching_layers(network, "blocks.*.step") == [block.step for block in network.blocks]
    with pytest.raises(ValueError, match=r"no layers 'block\.\*'; did you mean 'blocks"):
        matching_layers(network, "block.*")


def test_training_logs_the_penalty_and_saves_the_average(cifar, tmp_path):
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, "average=0.5", "range_penalty.limit=0.1"])
    recipes.train(recipe, tmp_path, data_dir=cifar)
    run = recipes.run_folder(recipe, tmp_path)
    assert any(line.get("range_penalty", 0) > 0 for line in run.metrics())
    networks = run.newest_checkpoint().shared["networks"]
    assert networks["model"].keys() == networks["trained"].keys()
    assert not torch.equal(networks["model"]["fc.weight"], networks["trained"]["fc.weight"])
    assert torch.equal(TrainedRun(run.path).network().fc.weight, networks["model"]["fc.weight"])


def test_an_averaged_run_resumes_bit_for_bit(cifar, tmp_path):
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, "average=0.5", "checkpoint_every=4"])
    recipes.train(recipe, tmp_path / "whole", data_dir=cifar)
    whole, parts = (recipes.run_folder(recipe, tmp_path / name).path for name in ("whole", "parts"))
    parts.parent.mkdir(parents=True)
    parts.symlink_to(whole)  # the same run, stopped: its last checkpoint and result are gone
    last = max((whole / "checkpoints").iterdir())
    expected = load_file(last / "shared.safetensors")
    for file in (*last.iterdir(), whole / "result.json"):
        file.unlink()
    last.rmdir()
    recipes.train(recipe, tmp_path / "parts", data_dir=cifar, resume=True)
    found = load_file(last / "shared.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_compiled_network_is_penalised_too(cifar):
    torch.compiler.reset()
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, "range_penalty.limit=0.1"])
    accelerator = make_accelerator()
    data = recipe.load(cifar)
    penalties = []
    for compiled in (False, True):
        task = recipe.build(data, accelerator)
        recipe.prepare_training(task, data, accelerator)
        if compiled:
            compile_networks(task, accelerator, backend="eager")
        batches = islice(task.batches, 2)
        penalties.append([float(task.train_step(batch)["range_penalty"]) for batch in batches])
    assert penalties[0] == pytest.approx(penalties[1], rel=1e-4)
    assert min(penalties[0]) > 0


def test_gates_get_their_own_weight_decay(cifar):
    recipe = recipes.get_recipe("cifar10_strict", "small", [*TINY, "gate_decay=0.25"])
    accelerator = make_accelerator()
    data = recipe.load(cifar)
    task = recipe.build(data, accelerator)
    recipe.prepare_training(task, data, accelerator)
    groups = task.optimizers["model"].param_groups
    assert [group["weight_decay"] for group in groups] == [5e-4, 0.25]
    gates = {id(p) for block in task.network.blocks for p in block.step.gate.parameters()}
    assert {id(p) for p in groups[1]["params"]} == gates
    assert sum(len(group["params"]) for group in groups) == len(list(task.network.parameters()))


def test_a_network_without_gates_refuses_their_decay(cifar):
    recipe = recipes.get_recipe("cifar10_strict_relu", "small", [*TINY, "gate_decay=0.25"])
    accelerator, data = make_accelerator(), recipe.load(cifar)
    with pytest.raises(ValueError, match=r"gate_decay is 0\.25, and the network has no layers named gate"):
        recipe.prepare_training(recipe.build(data, accelerator), data, accelerator)


def test_muon_refuses_a_decay_of_gates(cifar):
    recipe = recipes.get_recipe("cifar10_strict_tame", "small", [*TINY, "gate_decay=0.25"])
    accelerator, data = make_accelerator(), recipe.load(cifar)
    with pytest.raises(ValueError, match="gate_decay is for other optimizers"):
        recipe.prepare_training(recipe.build(data, accelerator), data, accelerator)
