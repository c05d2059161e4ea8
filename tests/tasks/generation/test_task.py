"""The adversarial task: its updates, its moving average, and that a run continues to the last bit."""

from __future__ import annotations

import io
import shutil

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pinets.engine.nonfinite import NonFiniteError
from pinets.engine.run import RunFolder
from pinets.models import create_model
from pinets.tasks.generation.losses import Hinge, NonSaturating, Wasserstein
from pinets.tasks.generation.recipe import _group_mismatches


def weights(folder, step=6):
    return load_file(folder / "checkpoints" / f"step-{step:08d}" / "shared.safetensors")


def test_resume_is_bit_for_bit(toy_gan, tmp_path):
    toy_gan.train(tmp_path / "whole")
    expected = weights(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    (tmp_path / "resumed" / "checkpoints" / "step-00000006" / "shared.safetensors").unlink()
    torch.manual_seed(99)  # a process that knows nothing of the one before
    toy_gan.train(tmp_path / "resumed")
    found = weights(tmp_path / "resumed")
    assert found.keys() == expected.keys()
    assert {key.split(".")[2] for key in found if key.startswith("state.networks")} == {
        "model",
        "generator",
        "discriminator",
    }
    for name, tensor in expected.items():
        assert found[name].numpy().tobytes() == tensor.numpy().tobytes(), name
    pictures = [RunFolder(tmp_path / name).pictures("samples") for name in ("whole", "resumed")]
    assert [path.name for path in pictures[0]] == ["samples-00000003.png", "samples-00000006.png"]
    assert pictures[0][-1].read_bytes() == pictures[1][-1].read_bytes()
    board = EventAccumulator(str(tmp_path / "whole" / "tensorboard")).Reload()
    shown = board.Images("samples")
    assert [image.step for image in shown] == [3, 6]
    with Image.open(io.BytesIO(shown[-1].encoded_image_string)) as seen, Image.open(pictures[0][-1]) as kept:
        assert seen.convert("L").tobytes() == kept.convert("L").tobytes()


def test_a_step_is_several_updates_of_one_and_one_of_the_other(toy_gan, accelerator):
    task = toy_gan.task(accelerator, discriminator_steps=4)
    counts = {"generator": 0, "discriminator": 0}

    def counted(name, step):
        def wrapped(*args, **kwargs):
            counts[name] += 1
            return step(*args, **kwargs)

        return wrapped

    for name, optimizer in task.optimizers.items():
        optimizer.step = counted(name, optimizer.step)
    batch = next(iter(task.batches))
    assert len(batch[0]) == 32
    task.train_step(batch)
    assert counts == {"generator": 1, "discriminator": 4}


def test_each_update_leaves_the_other_network_alone(toy_gan, accelerator):
    task = toy_gan.task(accelerator)

    def copy(network):
        return [parameter.detach().clone() for parameter in network.parameters()]

    def same(network, before):
        return all(torch.equal(a, b) for a, b in zip(network.parameters(), before, strict=True))

    before = {name: copy(network) for name, network in task.networks.items()}
    task._update_discriminator(toy_gan.images(8))
    assert same(task.generator, before["generator"])
    assert not same(task.discriminator, before["discriminator"])
    before = {name: copy(network) for name, network in task.networks.items()}
    task._update_generator()
    assert same(task.discriminator, before["discriminator"])
    assert not same(task.generator, before["generator"])
    assert all(parameter.requires_grad for parameter in task.discriminator.parameters())


def test_the_moving_average_is_its_formula(toy_gan, accelerator):
    task, expected = toy_gan.task(accelerator, average=0.9), None
    for batch, _ in zip(task.batches, range(4), strict=False):
        task.train_step(batch)
        now = [parameter.detach().clone() for parameter in task.generator.parameters()]
        expected = now if expected is None else [0.9 * e + 0.1 * n for e, n in zip(expected, now, strict=True)]
    for parameter, value in zip(task.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter, value)
    for averaged, last in zip(task.model.buffers(), task.generator.buffers(), strict=True):
        assert torch.equal(averaged, last)  # the statistics of batch norm are the newest


def test_evaluating_and_looking_disturb_nothing(toy_gan, accelerator):
    task = toy_gan.task(accelerator)
    task.train_step(next(iter(task.batches)))
    state = torch.get_rng_state()
    first, pictures = task.evaluate("validation"), task.pictures()["samples"]
    assert torch.equal(torch.get_rng_state(), state)
    torch.randn(100)
    assert task.evaluate("test") == first
    assert torch.equal(task.pictures()["samples"], pictures)
    assert pictures.dtype == torch.uint8
    assert pictures.shape == (64, 1, 4, 4)


def test_samples_come_from_the_average_in_evaluation_mode(toy_gan, accelerator):
    """One at a time or all at once: batch norm of training would tell them apart."""
    seen = []
    task = toy_gan.task(accelerator, evaluate=lambda sample, split: seen.append(sample(300)) or {})
    task.train_step(next(iter(task.batches)))
    task.evaluate("test")
    torch.manual_seed(1)
    noise = torch.cat([torch.randn(256, 3), torch.randn(44, 3)])
    one_by_one = torch.cat([task.model.eval()(z[None]) for z in noise])
    expected = ((one_by_one + 1) * 127.5).round()
    assert (seen[0].float() - expected).abs().max() <= 1  # a number may lie on the edge of rounding
    assert ((seen[0].float() - expected).abs() > 0).float().mean() < 1e-3


@pytest.mark.parametrize("loss", [Hinge(), NonSaturating(r1=1.0), Wasserstein()], ids=lambda loss: type(loss).__name__)
def test_learns_a_simple_image(toy_gan, accelerator, loss):
    task = toy_gan.task(accelerator, loss=loss)
    ramp = torch.linspace(0, 255, 16).view(1, 4, 4)

    def distance():
        return float((task.pictures()["samples"].float().mean(0) - ramp).abs().mean())

    before = distance()
    for _ in range(12):
        for batch in task.batches:
            task.train_step(batch)
    assert distance() < 0.6 * before


def test_a_loss_that_is_not_finite_stops_the_run(toy_gan, tmp_path, monkeypatch):
    monkeypatch.setattr(Hinge, "generator", lambda self, scores: scores.mean() / 0)
    with pytest.raises(NonFiniteError, match="step 1: the loss is"):
        toy_gan.train(tmp_path / "run")


@pytest.mark.parametrize("option, value", [("average", 1.0), ("average", -0.1), ("discriminator_steps", 0)])
def test_values_out_of_range_are_refused(toy_gan, accelerator, option, value):
    with pytest.raises(ValueError, match=f"{option}|batch_size"):
        toy_gan.task(accelerator, **{option: value})


def test_two_processes_end_with_the_same_networks(torchrun, tmp_path):
    torchrun("generation_toy.py", tmp_path / "run")


def test_two_processes_give_the_result_of_one(toy_gan, torchrun, tmp_path):
    # without batch norm, whose statistics each process takes from its own half of a batch
    toy_gan.train(tmp_path / "1", norm=False, discriminator_steps=1)
    torchrun("generation_toy.py", tmp_path / "2", "--plain")
    one, two = weights(tmp_path / "1"), weights(tmp_path / "2")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            two[name], tensor, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("batch", [2, 4, 6, 8])
def test_generated_images_never_change_the_scores_of_real_ones(batch):
    """StyleGAN's discriminator compares images in groups of 4: batches that would mix both kinds are refused."""
    torch.manual_seed(0)
    discriminator = create_model("stylegan_discriminator", size=16, base=64, most=8)
    real, fake = torch.randn(2, batch, 3, 16, 16)
    alone, beside = discriminator(real), discriminator(torch.cat([real, 9 * fake]))[:batch]
    mixed = not torch.allclose(alone, beside, atol=1e-5)
    assert mixed == bool(_group_mismatches(discriminator, batch))
