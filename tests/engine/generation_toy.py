"""A tiny generator and discriminator to train; as a script, one of several processes that must agree."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

from pinets.data import ArraySet, Batches
from pinets.engine.loop import Plan, fit, make_accelerator
from pinets.engine.optimization import Adam, LinearDecay
from pinets.engine.randomness import seed_everything
from pinets.engine.run import RunFolder
from pinets.tasks.generation.losses import Hinge
from pinets.tasks.generation.task import Generation

PLAN = Plan(steps=6, steps_per_epoch=3, checkpoint_every=2, log_every=2)


def generator(norm=True):
    return nn.Sequential(
        nn.Linear(3, 16),
        nn.BatchNorm1d(16) if norm else nn.Identity(),
        nn.Tanh(),
        nn.Linear(16, 16),
        nn.Tanh(),
        nn.Unflatten(1, (1, 4, 4)),
    )


def discriminator():
    return nn.Sequential(
        nn.Flatten(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8)),
        nn.ReLU(),
        nn.Linear(8, 1),
        nn.Flatten(0),
    )


def images(count=96):
    ramp = torch.linspace(-1, 1, 16).view(1, 1, 4, 4)
    return ramp + 0.1 * torch.randn(count, 1, 4, 4, generator=torch.Generator().manual_seed(5))


def task(accelerator, *, loss=None, discriminator_steps=2, average=0.9, evaluate=None, norm=True):
    seed_everything(0, accelerator.device)
    networks = {"generator": generator(norm), "discriminator": discriminator()}
    optimizers = {name: Adam(lr=1e-2, betas=(0.0, 0.9)).build(net.parameters()) for name, net in networks.items()}
    schedules = {name: LinearDecay().attach(each, steps_per_epoch=3, epochs=2) for name, each in optimizers.items()}
    data = images()
    batches = Batches(
        ArraySet(data, torch.zeros(len(data)).long(), ("ramp",)),
        8 * discriminator_steps,
        shuffle=True,
        drop_last=True,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
    )
    made = Generation(
        *networks.values(),
        loss=loss or Hinge(),
        noise=lambda count: torch.randn(count, 3),
        evaluate=evaluate or (lambda sample, split: {"mean": float(sample(32).float().mean())}),
        accelerator=accelerator,
        discriminator_steps=discriminator_steps,
        generator_batch=8 // accelerator.num_processes,
        average=average,
    )
    made.batches, made.schedules = batches, schedules
    made.optimizers = {name: accelerator.prepare(optimizer) for name, optimizer in optimizers.items()}
    return made


def train(folder, **options):
    run, accelerator = RunFolder(folder), make_accelerator()
    if accelerator.is_main_process and not run.exists:
        run.start({"kind": "toy"}, accelerator.num_processes)
    accelerator.wait_for_everyone()
    made = task(accelerator, **options)
    if accelerator.process_index > 0:
        torch.manual_seed(accelerator.process_index)
    return made, fit(made, PLAN, run, accelerator), accelerator


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain = {"norm": False, "discriminator_steps": 1} if "--plain" in sys.argv else {}
    made, result, accelerator = train(Path(sys.argv[1]), **plain)
    for name, network in made.networks.items():
        for key, tensor in accelerator.unwrap_model(network).named_parameters():
            everywhere = accelerator.gather(tensor.detach().reshape(1, -1).contiguous())
            assert len(everywhere) == 2
            assert torch.equal(everywhere[0], everywhere[1]), f"{name}.{key} differs between the processes"
    means = accelerator.gather(torch.tensor([result["test"]["mean"]]))
    assert means[0] == means[1]
