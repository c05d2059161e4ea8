"""What the loop needs to know of a task: nothing but networks, optimisers, schedules, batches and two functions.

And what most tasks do alike: an update from a loss, and sums over the processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from pinets.train.nonfinite import require_finite
from pinets.train.schedules import Schedule

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Split", "StatefulBatches", "Task", "sum_over_processes", "update"]

Split = Literal["validation", "test"]


class StatefulBatches(Protocol):
    """Training batches, each process's share of them, for instance :class:`pinets.data.Batches`.

    An iteration goes on where the last one stopped, to the end of the epoch; the position can be saved and restored.
    """

    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> None: ...


class Task(ABC):
    """A thing to train: a classifier, a generator and its discriminator, an autoencoder.

    A subclass sets the attributes below in its constructor, with networks and optimisers as ``accelerator.prepare``
    returns them, and writes :meth:`train_step` and :meth:`evaluate`. Everything named here is in every checkpoint, so
    that a run continues bit for bit; what else has to survive goes into :meth:`state_dict`.

    Attributes:
        networks: By name; also those that are not trained by gradient, such as a moving average of the weights
            (``torch.optim.swa_utils.AveragedModel``). The same on every process.
        optimizers: By name.
        schedules: By name; stepped by the loop after each update, and told each validation's score.
        batches: The training data. With ``n`` accumulation steps, an update takes ``n`` of them.
        score: Which metric of the validation decides, higher is better; none decides if ``None``.
        protocols: How the metrics of a split were measured, in words, where their names do not tell.
    """

    networks: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer]
    schedules: Mapping[str, Schedule]
    batches: StatefulBatches
    score: str | None = None
    protocols: Mapping[Split, str] = MappingProxyType({})

    @abstractmethod
    def train_step(self, batch: Any) -> Mapping[str, Tensor | float]:
        """Learn from one batch: forward, :func:`~pinets.train.nonfinite.require_finite`, backward, optimiser step.

        Within ``accelerator.accumulate``; a task with several networks may update each several times, from parts of
        the batch. Returns what to log, averaged over the steps between two log lines.
        """

    @abstractmethod
    def evaluate(self, split: Split) -> dict[str, float]:
        """The metrics on a split, the same on every process; leaves the state as it was, but for random numbers."""

    def pictures(self) -> dict[str, Tensor]:
        """Images to look at, uint8 (N, C, H, W) by name, kept after each validation; asked of the main process alone.

        They must leave the state as it was, random numbers included.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What is the same on every process and not in the attributes: tensors and plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most tasks have none
        """Take back what :meth:`state_dict` gave."""

    def local_state_dict(self) -> dict[str, Any]:
        """What each process has for itself, such as its shard of a classifier too large for one."""
        return {}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most tasks have none
        """Take back what :meth:`local_state_dict` gave on this process."""


def update(
    loss: Tensor, network: nn.Module, optimizer: Optimizer, accelerator: Accelerator, *, clip: float | None = None
) -> Tensor:
    """Learn from a loss, within ``accelerator.accumulate`` where batches are divided; returns it without its graph.

    Args:
        loss: What is to be less; an error on all processes where it is not finite on one.
        network: What the optimiser updates.
        optimizer: Steps when all parts of a batch have been seen.
        accelerator: Made by :func:`~pinets.train.loop.make_accelerator`.
        clip: Largest norm of the gradient; ``None`` for no limit.
    """
    require_finite(loss, accelerator)
    accelerator.backward(loss)
    if clip is not None and accelerator.sync_gradients:
        accelerator.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def sum_over_processes(total: Tensor, accelerator: Accelerator) -> Tensor:
    """The sum of what each process has."""
    if accelerator.num_processes == 1:
        return total
    return accelerator.reduce(total.to(accelerator.device), reduction="sum")
