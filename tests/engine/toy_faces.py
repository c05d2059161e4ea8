"""A tiny face recognition task through the whole engine, for one process or several; also a script for torchrun."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

from pinets.data import Batches, DataError, ImageSet, Normalize
from pinets.data.damage import Damage
from pinets.engine.loop import Plan, fit, make_accelerator
from pinets.engine.optimization import SGD, LinearDecay
from pinets.engine.randomness import seed_everything
from pinets.engine.run import RunFolder
from pinets.tasks.faces.arcface import ArcFace
from pinets.tasks.faces.data.pairs import FacePairs
from pinets.tasks.faces.partial_fc import PartialFC
from pinets.tasks.faces.task import FaceRecognition, Verification

PEOPLE = 11


def faces(per_person, seed):
    """Every person is a pattern, as symmetric as faces are, every image the pattern and noise."""
    halves = torch.randint(60, 196, (PEOPLE, 1, 8, 4), generator=torch.Generator().manual_seed(0))
    patterns = torch.cat([halves, halves.flip(-1)], dim=-1)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(PEOPLE).repeat_interleave(per_person)
    images = patterns[labels] + torch.randint(-40, 40, (len(labels), 1, 8, 8), generator=generator)
    return ImageSet(images.clamp(0, 255).to(torch.uint8), labels, tuple(map(str, range(PEOPLE))))


def pairs():
    shown = faces(4, seed=2)
    count = len(shown)
    same = torch.stack([torch.arange(0, count, 2), torch.arange(1, count, 2)], dim=1)
    different = torch.stack([torch.arange(0, count, 2), (torch.arange(0, count, 2) + 5) % count], dim=1)
    return FacePairs(shown, torch.cat([same, different]), torch.arange(2 * len(same)) < len(same))


def train(folder, *, sample=1.0, accumulate=1, steps=12, precision="no"):
    accelerator = make_accelerator(precision, accumulate)
    share = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
    seed_everything(0, accelerator.device)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 6))
    sgd = SGD(lr=0.1, momentum=0.9, weight_decay=5e-4)
    optimizer = sgd.build(network.parameters())
    normalize = Normalize((0.5,), (0.5,))
    verification = Verification({"toy": pairs()}, normalize)
    damage = Damage(tell=lambda line: None)
    for seen_by in ("all", accelerator.process_index):
        damage.note(DataError(f"an image seen by {seen_by}"))
    task = FaceRecognition(
        network,
        verification={"validation": verification, "test": verification},
        accelerator=accelerator,
        damage=damage,
    )
    task.classifier = PartialFC(PEOPLE, 6, ArcFace(16.0, 0.3), sgd, sample=sample, device=accelerator.device, **share)
    task.batches = Batches(faces(6, 1), 16 // accumulate, transform=normalize, shuffle=True, drop_last=True, **share)
    task.schedules = {"model": LinearDecay().attach(optimizer, steps_per_epoch=6, epochs=steps / 6)}
    task.optimizers = {"model": accelerator.prepare(optimizer)}
    run = RunFolder(folder)
    if accelerator.is_main_process and not run.exists:
        run.start({"toy": "faces"}, accelerator.num_processes)
    accelerator.wait_for_everyone()
    return fit(task, Plan(steps, steps_per_epoch=6, checkpoint_every=3, log_every=3), run, accelerator)


OPTIONS = {"plain": {}, "sampled": {"sample": 0.3}, "in parts": {"sample": 0.3, "accumulate": 2}}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", choices=OPTIONS)
    arguments = parser.parse_args()
    for name in arguments.names:
        train(arguments.folder / name, **OPTIONS[name])
