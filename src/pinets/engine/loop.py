"""The loop: steps, validations, checkpoints and the result of any :class:`~pinets.engine.task.Task`."""

from __future__ import annotations

import atexit
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from pinets._extras import require
from pinets._memory import keep_memory
from pinets._progress import Progress
from pinets.engine.checkpoint import Checkpoint, CheckpointError, Checkpoints
from pinets.engine.logs import Log, MetricsLog
from pinets.engine.nonfinite import NonFiniteError, NonFiniteLoss, first_non_finite_layer, non_finite_names
from pinets.engine.optimization import require_range
from pinets.engine.randomness import (
    random_state,
    restore_random_state,
    restore_torch_random_state,
    torch_random_state,
)
from pinets.engine.run import RunFolder
from pinets.engine.task import Split, StatefulBatches, Task

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Plan", "fit", "make_accelerator", "restore_networks"]

_SECONDS_FOR_THREADS = 0.5  # time for gloo's threads to end after the work is done


@dataclass(frozen=True)
class Plan:
    """How long to train, and how often to validate, save and log; all in updates.

    Args:
        steps: Length of the run.
        steps_per_epoch: Updates between two validations: a pass over the data, or any other number.
        checkpoint_every: Updates between two checkpoints; there is one after each validation in any case.
        log_every: Updates between two lines of the log.
    """

    steps: int
    steps_per_epoch: int
    checkpoint_every: int = 500
    log_every: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "steps_per_epoch", "checkpoint_every", "log_every"):
            value = getattr(self, name)
            require_range(name, value, at_least=1)
            if value != int(value):
                raise ValueError(f"{name} must be a whole number of updates, got {value}")

    def epoch(self, step: int) -> int:
        """The epoch a step belongs to; the first is 1."""
        return math.ceil(step / self.steps_per_epoch)


@dataclass
class _Position:
    """The progress of the loop. Together with the state of the task it is all that resuming a run needs."""

    step: int = 0
    seconds: float = 0.0  # spent so far
    sums: dict[str, float] = field(default_factory=dict)  # of the metrics since the last line of the log
    count: int = 0  # steps in the sums
    since: float = 0.0  # value of `seconds` when the first of these steps began
    log_bytes: int = 0
    validation: dict[str, float] = field(default_factory=dict)  # the last metrics


def make_accelerator(precision: str = "no", accumulate: int = 1) -> Accelerator:
    """Accelerate, on the CPU where there is nothing faster; the processes are those that ``torchrun`` started.

    Without ``cpu=True`` Accelerate would run two CPU processes that do not communicate.
    """
    accelerate = require("accelerate", extra="train")
    accelerate.state.AcceleratorState._reset_state()  # otherwise the first precision of a process is that of all runs
    on_cpu = not torch.accelerator.is_available()
    made = accelerate.Accelerator(cpu=on_cpu, mixed_precision=precision, gradient_accumulation_steps=accumulate)
    if made.num_processes > 1:
        atexit.unregister(_leave_group)  # registered once, however many accelerators there are
        atexit.register(_leave_group)
    return made


def _leave_group() -> None:
    """Leave the group of CPU processes before the interpreter ends.

    A thread of gloo that still has to free a tensor afterwards aborts the process, which then ends with an error
    although all its work is done. Sleeping gives such threads the interpreter.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()
        time.sleep(_SECONDS_FOR_THREADS)


def fit(
    task: Task,
    plan: Plan,
    run: RunFolder,
    accelerator: Accelerator,
    *,
    title: str = "train",
    about: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Train to the end of the plan, from the newest checkpoint in the run folder if there is one.

    Args:
        task: What to train, with its optimizers, schedules and batches.
        plan: How long.
        run: Where the log, the checkpoints and the result go; it was started already.
        accelerator: Made by :func:`make_accelerator`.
        title: For the progress bar.
        about: Entries to put first in the result, such as the name of the recipe.

    Returns:
        The content of ``result.json``: the steps, the seconds, the metrics of the last epoch's validation and of the
        test, with its protocol where the task names one. The test split is evaluated here, once.
    """
    if not isinstance(task.batches, StatefulBatches):
        raise TypeError(
            "a task's batches need state_dict and load_state_dict, so that a run resumes where it stopped, as "
            f"pinets.data.Batches and torchdata's StatefulDataLoader have; got {type(task.batches).__name__}"
        )
    if accelerator.device.type == "cpu":
        keep_memory()
    checkpoints = Checkpoints(run.checkpoints_folder, run.owner())
    log = Log()
    if accelerator.is_main_process:
        log = MetricsLog(run.metrics_file, run.tensorboard_folder, run.pictures_folder)
    try:
        position = _resume(task, checkpoints, log, accelerator)
        with Progress(title, plan.steps, position.step, main=accelerator.is_main_process) as bar:
            _train(task, plan, position, checkpoints, log, bar, accelerator)
            test = _evaluate(task, "test")
            if test:
                bar.say("test: " + _numbers(test))
        log.write("test", plan.steps, plan.epoch(plan.steps), test)
        log.flush()
    finally:
        log.close()
    result = {
        **about,
        "steps": plan.steps,
        "epochs": plan.steps / plan.steps_per_epoch,
        "seconds": position.seconds,
        "parameters": {name: _count(network) for name, network in task.networks.items()},
        "validation": position.validation,
        "test": test,
        **({"protocol": task.protocols["test"]} if "test" in task.protocols else {}),
    }
    if accelerator.is_main_process:
        run.finish(result)
    accelerator.wait_for_everyone()
    return result


def _train(
    task: Task,
    plan: Plan,
    position: _Position,
    checkpoints: Checkpoints,
    log: Log,
    bar: Progress,
    accelerator: Accelerator,
) -> None:
    clock = time.monotonic() - position.seconds
    batches = _epoch_after_epoch(task.batches)
    while position.step < plan.steps:
        batch: Any = None
        drawn: dict[str, Any] = {}
        metrics: dict[str, float] = {}
        try:
            for _ in range(accelerator.gradient_accumulation_steps):
                batch = next(batches)
                drawn = torch_random_state(accelerator.device)  # to repeat the step if its loss is not finite
                _add(metrics, task.train_step(batch), 1 / accelerator.gradient_accumulation_steps)
            if not all(map(math.isfinite, metrics.values())):
                raise NonFiniteLoss(f"the step returned {_numbers(metrics)}")
        except NonFiniteLoss as reason:
            restore_torch_random_state(drawn, accelerator.device)
            where = _where(task, batch, accelerator)
            raise NonFiniteError(f"step {position.step + 1}: {reason}; {where}; {checkpoints.last_good()}") from reason
        for optimizer in task.optimizers.values():
            # a generator's step leaves gradients in the discriminator, and checkpoints hold no gradients: a resumed run
            # must not differ
            optimizer.zero_grad()
        for schedule in task.schedules.values():
            if not isinstance(schedule, ReduceLROnPlateau):
                schedule.step()
        position.step += 1
        _add(position.sums, metrics)
        position.count += 1
        bar.advance(metrics)

        epoch_ends = position.step % plan.steps_per_epoch == 0 or position.step == plan.steps
        if position.step % plan.log_every == 0 or epoch_ends:
            means = {name: total / position.count for name, total in position.sums.items()}
            if accelerator.num_processes > 1:
                values = torch.tensor(list(means.values()), device=accelerator.device)
                means = dict(zip(means, accelerator.reduce(values, reduction="mean").tolist(), strict=True))
            seconds = time.monotonic() - clock
            rate = position.count / max(seconds - position.since, 1e-9)
            logged = {**means, **_rates(task)}
            log.write("train", position.step, plan.epoch(position.step), logged, seconds=seconds, steps_per_second=rate)
            position.sums, position.count, position.since = {}, 0, seconds
        if epoch_ends:
            _validate(task, plan, position, log, bar, accelerator)
            position.since = time.monotonic() - clock  # the rate counts training alone
        elif position.step % plan.checkpoint_every != 0:
            continue
        position.seconds = time.monotonic() - clock
        _save(task, position, checkpoints, log, accelerator)


def _epoch_after_epoch(batches: StatefulBatches) -> Iterator[Any]:
    empty = 0
    while empty < 2:  # a run that is resumed at the end of an epoch begins with an empty rest
        empty += 1
        for batch in batches:
            empty = 0
            yield batch
    raise ValueError(f"the task's batches, {type(batches).__name__}, are exhausted: an epoch had none")


def _evaluate(task: Task, split: Split) -> dict[str, float]:
    return {name: float(value) for name, value in task.evaluate(split).items()}


def _validate(task: Task, plan: Plan, position: _Position, log: Log, bar: Progress, accelerator: Accelerator) -> None:
    _share_buffers(task, accelerator)
    metrics = _evaluate(task, "validation")
    log.write("validation", position.step, plan.epoch(position.step), metrics)
    if metrics:
        bar.say(f"epoch {plan.epoch(position.step)}: {_numbers(metrics)}")
    if accelerator.is_main_process:
        for name, images in task.pictures().items():
            log.picture(name, position.step, images)
    position.validation = metrics
    for schedule in task.schedules.values():
        if isinstance(schedule, ReduceLROnPlateau) and task.score is not None:
            schedule.step(metrics[task.score])


def _save(task: Task, position: _Position, checkpoints: Checkpoints, log: Log, accelerator: Accelerator) -> None:
    _share_buffers(task, accelerator)
    networks = {name: accelerator.unwrap_model(network).state_dict() for name, network in task.networks.items()}
    for name, tensors in networks.items():
        broken = non_finite_names(tensors)
        if broken:
            raise NonFiniteError(
                f"step {position.step}: the weights are not finite any more, first {name}.{broken[0]} "
                f"({len(broken)} of {len(tensors)} tensors); {checkpoints.last_good()}"
            )
    position.log_bytes = log.flush()
    shared = {
        "position": vars(position),
        "networks": networks,
        "optimizers": {name: optimizer.state_dict() for name, optimizer in task.optimizers.items()},
        "schedules": {name: schedule.state_dict() for name, schedule in task.schedules.items()},
        "task": task.state_dict(),
        "scaler": None if accelerator.scaler is None else accelerator.scaler.state_dict(),
    }
    local = {
        "random": random_state(accelerator.device),
        "batches": task.batches.state_dict(),
        "task": task.local_state_dict(),
    }
    checkpoints.save(position.step, shared, local, accelerator)


def _resume(task: Task, checkpoints: Checkpoints, log: Log, accelerator: Accelerator) -> _Position:
    def accepts(candidate: Checkpoint) -> None:
        if candidate.processes != accelerator.num_processes:
            raise CheckpointError(
                f"{candidate.folder} was written by {candidate.processes} processes, and there are "
                f"{accelerator.num_processes} now; a run is resumed with as many as it was started with"
            )
        _require_fits(candidate, task, accelerator)

    def refused(reason: str) -> None:
        accelerator.print(f"checkpoint refused, trying the one before: {reason}", file=sys.stderr)

    checkpoint = checkpoints.newest(accepts, refused)
    accelerator.wait_for_everyone()  # no process writes before all have chosen the same checkpoint
    if checkpoint is None:
        log.rewind(0, step=-1)
        return _Position()
    state, local = checkpoint.shared, checkpoint.local(accelerator.process_index)
    restore_networks(task, checkpoint, accelerator)
    for name, optimizer in task.optimizers.items():
        _load_optimizer(optimizer, state["optimizers"][name])
    for name, schedule in task.schedules.items():
        schedule.load_state_dict(state["schedules"][name])
    task.load_state_dict(state["task"])
    task.load_local_state_dict(local["task"])
    task.batches.load_state_dict(local["batches"])
    if accelerator.scaler is not None:
        accelerator.scaler.load_state_dict(state["scaler"])
    restore_random_state(local["random"], accelerator.device)
    position = _Position(**state["position"])
    log.rewind(position.log_bytes, position.step)
    return position


def restore_networks(task: Task, checkpoint: Checkpoint, accelerator: Accelerator) -> None:
    """Load the weights of a checkpoint into the networks of a task, and nothing else."""
    _require_fits(checkpoint, task, accelerator)
    for name, network in task.networks.items():
        accelerator.unwrap_model(network).load_state_dict(checkpoint.shared["networks"][name])


def _require_fits(checkpoint: Checkpoint, task: Task, accelerator: Accelerator) -> None:
    """Refuse a checkpoint of other networks before anything is loaded."""
    saved = checkpoint.shared["networks"]
    if saved.keys() != task.networks.keys():
        raise CheckpointError(f"{checkpoint.file} has the networks {sorted(saved)}, not {sorted(task.networks)}")
    for name, network in task.networks.items():
        checkpoint.require_fits(name, accelerator.unwrap_model(network))


def _load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    optimizer.load_state_dict(state)
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim > 1:
                # in the parameter's layout (channels last), which files do not keep
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _share_buffers(task: Task, accelerator: Accelerator) -> None:
    """Give all processes the main one's buffers (batch-norm statistics), as the next step would."""
    if accelerator.num_processes > 1:
        broadcast = require("accelerate.utils", extra="train").broadcast
        for network in task.networks.values():
            for buffer in network.buffers():
                buffer.copy_(broadcast(buffer.detach().clone()))


def _where(task: Task, batch: Any, accelerator: Accelerator) -> str:
    """Run the batch again with a hook on every layer, and say which layer was the first with a non-finite output."""
    networks = {name: accelerator.unwrap_model(network) for name, network in task.networks.items()}
    again = True
    eager = torch.compiler.set_stance("force_eager")  # compiled networks do not call hooks
    with eager, first_non_finite_layer(networks) as found, suppress(NonFiniteLoss):
        again = not all(math.isfinite(float(value)) for value in task.train_step(batch).values())
    if not again:  # the weights may have changed: a discriminator is updated before its generator's loss breaks
        return "it did not happen again when the step was repeated"
    return f"the first layer to give it is {found[0]}" if found else "all layers are finite, so the loss itself made it"


def _rates(task: Task) -> dict[str, float]:
    rates = {name: float(optimizer.param_groups[0]["lr"]) for name, optimizer in task.optimizers.items()}
    return {"lr": next(iter(rates.values()))} if len(rates) == 1 else {f"lr_{name}": lr for name, lr in rates.items()}


def _add(sums: dict[str, float], metrics: Mapping[str, Tensor | float], factor: float = 1.0) -> None:
    for name, value in metrics.items():
        sums[name] = sums.get(name, 0.0) + factor * float(value)


def _count(network: nn.Module) -> int:
    """Number of learnt parameters; a moving average of another network has none."""
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def _numbers(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
