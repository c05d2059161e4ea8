"""Two tiny tasks, and runs of them that die on purpose; as a script, it forks a process for each life of a run."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

import accelerate  # noqa: F401 - imported before the forks, so that they need not do it again
import safetensors.torch
import torch
import torch._dynamo
import torch.utils.tensorboard
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pinets.engine.loop import Plan, fit, make_accelerator
from pinets.engine.nonfinite import require_finite
from pinets.engine.optimization import SGD, Adam, LinearDecay, MultiStep, Plateau
from pinets.engine.randomness import seed_everything
from pinets.engine.run import RunFolder
from pinets.engine.task import Task
from pinets.tasks.classification.task import Classification


class ToyBatches:
    """This process's rows of shuffled global batches."""

    def __init__(self, inputs, labels, batch, seed=0, process=0, processes=1):
        self.inputs, self.labels, self.batch = inputs, labels, batch
        self.rows = slice(process * batch // processes, (process + 1) * batch // processes)
        self.generator = torch.Generator().manual_seed(seed)
        self.position, self.order = 0, None

    def __iter__(self):
        return self

    def __next__(self):
        if self.order is None or self.position + self.batch > len(self.order):
            self.order = torch.randperm(len(self.inputs), generator=self.generator)
            self.position = 0
        chosen = self.order[self.position : self.position + self.batch][self.rows]
        self.position += self.batch
        return self.inputs[chosen], self.labels[chosen]

    def state_dict(self):
        return {"position": self.position, "order": self.order, "generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], state["order"]
        self.generator.set_state(state["generator"])


def toy_data(size=96, classes=3):
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(size) % classes
    prototypes = torch.randn(classes, 2, 4, 4, generator=generator)
    return prototypes[labels] + 0.5 * torch.randn(size, 2, 4, 4, generator=generator), labels


def classifier(accelerator, *, schedule=None, norm=True, dropout=0.2, batch=12, lr=0.05):
    """A classifier with all that makes resuming hard: batch norm, dropout, momentum, channels last, a plateau."""
    seed_everything(0, accelerator.device)
    network = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Conv2d(6, 6, 3, padding=1),
        nn.Flatten(),
        nn.Linear(6 * 16, 3),
    ).to(memory_format=torch.channels_last)
    inputs, labels = toy_data()
    micro = batch // accelerator.gradient_accumulation_steps
    optimizer = SGD(lr=lr, momentum=0.9, weight_decay=1e-3).build(network.parameters())
    process, processes = accelerator.process_index, accelerator.num_processes
    task = Classification(
        network,
        samples=lambda split: [(inputs[process::processes], labels[process::processes])],
        accelerator=accelerator,
        top_k=(1, 2),
    )
    task.batches = ToyBatches(inputs, labels, micro, process=process, processes=processes)
    attached = (schedule or Plateau(epochs=1, gamma=0.5)).attach(optimizer, steps_per_epoch=8, epochs=3)
    task.optimizers, task.schedules = {"model": accelerator.prepare(optimizer)}, {"model": attached}
    return task


class Break(nn.Module):
    """Gives what is not a number in the given forward pass of training."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        self.calls += self.training
        return x / 0 if self.training and self.calls >= self.at else x


class ToyGan(Task):
    """Two networks, two optimisers, two critic steps, a moving average, noise, and a counter of its own."""

    def __init__(self, accelerator):
        seed_everything(1, accelerator.device)
        generator, critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), nn.Linear(2, 1)
        average = AveragedModel(generator, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizers = [Adam(lr=1e-2, betas=(0.0, 0.9)).build(net.parameters()) for net in (generator, critic)]
        self.schedules = {
            "generator": LinearDecay().attach(optimizers[0], steps_per_epoch=8, epochs=3),
            "critic": MultiStep((1, 2)).attach(optimizers[1], steps_per_epoch=8, epochs=3),
        }
        self.generator, self.critic, *optimizers = accelerator.prepare(generator, critic, *optimizers)
        self.networks = {"generator": self.generator, "critic": self.critic, "average": average}
        self.optimizers = dict(zip(("generator", "critic"), optimizers, strict=True))
        self.average, self.accelerator, self.seen = average, accelerator, 0
        points = torch.randn(64, 2, generator=torch.Generator().manual_seed(3)) + 2
        self.batches = ToyBatches(points, torch.zeros(64), 8)

    def update(self, name, loss):
        require_finite(loss, self.accelerator)
        self.accelerator.backward(loss)
        self.optimizers[name].step()
        self.optimizers[name].zero_grad()

    def train_step(self, batch):
        points, _ = batch
        for real in points.chunk(2):
            fake = self.generator(torch.randn(len(real), 3)).detach()
            critic_loss = F.relu(1 - self.critic(real)).mean() + F.relu(1 + self.critic(fake)).mean()
            self.update("critic", critic_loss)
        generator_loss = -self.critic(self.generator(torch.randn(8, 3))).mean()
        self.update("generator", generator_loss)
        self.average.update_parameters(self.accelerator.unwrap_model(self.generator))
        self.seen += len(points)
        return {"critic_loss": critic_loss.detach(), "generator_loss": generator_loss.detach()}

    @torch.no_grad()
    def evaluate(self, split):
        return {"distance": float((self.average(torch.randn(32, 3)).mean(0) - 2).norm()), "seen": self.seen}

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]

    def local_state_dict(self):
        return {"shard": torch.full((2,), float(self.seen))}

    def load_local_state_dict(self, state):
        assert state["shard"].tolist() == [self.seen] * 2


PLAN = Plan(steps=24, steps_per_epoch=8, checkpoint_every=3, log_every=2)


def train(folder, kind="classifier", plan=PLAN, breaking=None, **options):
    """Start or resume a run; on process ``breaking``, the fifth loss is not finite."""
    run = RunFolder(folder)
    accelerator = make_accelerator(accumulate=options.pop("accumulate", 1))
    if accelerator.is_main_process and not run.exists:
        run.start({"kind": kind, "options": repr(options)}, accelerator.num_processes)
    accelerator.wait_for_everyone()
    task = ToyGan(accelerator) if kind == "gan" else classifier(accelerator, **options)
    if accelerator.process_index == breaking:
        accelerator.unwrap_model(task.network)[2] = Break(at=5)
    if accelerator.process_index > 0:
        torch.manual_seed(accelerator.process_index)
    return fit(task, plan, run, accelerator)


def without_clock(row):
    """A line of the log, or a result, without what a clock measured."""
    return {key: value for key, value in row.items() if not key.startswith(("seconds", "steps_per"))}


def die_at(function, count):
    """Make the count-th call of a function the last thing this process does."""

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    def patch(owner, name, at_death=die):
        original, calls = getattr(owner, name), 0

        def counted(*args, **kwargs):
            nonlocal calls
            calls += 1
            return (at_death if calls == count else original)(*args, **kwargs)

        setattr(owner, name, counted)

    if function == "save_file":  # half a file of tensors is on the disk

        def half(tensors, path, metadata=None):
            whole = safetensors.torch.save(tensors)
            Path(path).write_bytes(whole[: len(whole) // 2])
            die()

        patch(safetensors.torch, "save_file", half)
    elif function == "rmtree":  # half a folder is removed
        patch(shutil, "rmtree", lambda path, **_: (next(Path(path).iterdir()).unlink(), die()))
    elif function == "train_step":
        patch(Classification, "train_step")
        patch(ToyGan, "train_step")
    else:
        patch(os, function)  # fsync, replace


def live(action):
    """Do something in a process of its own; returns how it ended."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_and_resume(folder, kind, function, count):
    def first_life():
        die_at(function, count)
        train(folder, kind)

    assert live(first_life) == -signal.SIGKILL, f"{function}:{count} was never reached"
    assert live(lambda: train(folder, kind)) == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=["classifier", "gan"])
    parser.add_argument("deaths", nargs="*", help="function:count, at which a run dies and is resumed")
    parser.add_argument("--one-life", action="store_true", help="run in this process, and do not fork")
    parser.add_argument("--plain", action="store_true", help="the same, without batch norm and dropout")
    parser.add_argument("--break-process", type=int, help="the same, and the fifth loss of this process is not finite")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plain:
        train(arguments.folder, arguments.kind, norm=False, dropout=0.0)
    elif arguments.one_life or arguments.break_process is not None:
        train(arguments.folder, arguments.kind, breaking=arguments.break_process)
    else:
        assert live(lambda: train(arguments.folder / "reference", arguments.kind)) == 0
        for death in arguments.deaths:
            function, _, count = death.partition(":")
            kill_and_resume(arguments.folder / death.replace(":", "-"), arguments.kind, function, int(count))
