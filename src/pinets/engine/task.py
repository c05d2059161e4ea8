"""A task: networks, what training needs beside them, and the two functions that the loop calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pinets.engine.nonfinite import require_finite

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Reduce", "Split", "StatefulBatches", "Task", "sum_over_processes", "update"]

Split = Literal["validation", "test"]
Reduce = Callable[[Tensor], Tensor]  # sums a tensor over all processes


@runtime_checkable
class StatefulBatches(Protocol):
    """One process's share of the training batches, for instance :class:`pinets.data.Batches`.

    An iteration continues where the last one stopped, to the end of the epoch; the position can be saved and restored.
    """

    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> None: ...


class Task(ABC):
    """A thing to train: a classifier, a generator and its discriminator, an autoencoder.

    A subclass sets ``networks`` in its constructor, as ``accelerator.prepare`` returns them, and writes
    :meth:`train_step` and :meth:`evaluate`. Evaluation needs no more; training also needs ``optimizers``, ``schedules``
    and ``batches``, which are set before :func:`~pinets.engine.fit` is called. Everything named here is in every
    checkpoint, so that a run continues bit for bit; anything else that must survive goes into :meth:`state_dict`.

    Attributes:
        networks: The networks by name; also those that are not trained by gradient, such as a moving average of the
            weights (``torch.optim.swa_utils.AveragedModel``). The same on every process.
        optimizers: The optimizers by name.
        schedules: The schedules by name. The loop steps them after each update; one that watches the score
            (``ReduceLROnPlateau``) after each validation instead.
        batches: The training data. With ``n`` accumulation steps, an update takes ``n`` of them.
        score: The metric of the validation that schedules watch, higher is better; ``None`` if there is none.
        protocols: How the metrics of a split were measured, in words, where their names do not tell.
    """

    networks: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer] = MappingProxyType({})
    schedules: Mapping[str, LRScheduler] = MappingProxyType({})
    batches: StatefulBatches
    score: str | None = None
    protocols: Mapping[Split, str] = MappingProxyType({})

    @abstractmethod
    def train_step(self, batch: Any) -> Mapping[str, Tensor | float]:
        """Learn from one batch: forward, :func:`~pinets.engine.nonfinite.require_finite`, backward, optimizer step.

        Within ``accelerator.accumulate``; a task with several networks may update each several times, from parts of
        the batch. Returns what to log, averaged over the steps between two log lines.
        """

    @abstractmethod
    def evaluate(self, split: Split) -> dict[str, float]:
        """The metrics on a split, the same on every process. The state stays as it was, except for random numbers."""

    def pictures(self) -> dict[str, Tensor]:
        """Images to look at, uint8 (N, C, H, W) by name, saved after each validation; asked of the main process alone.

        The state must stay as it was, random numbers included.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Further state that is the same on every process: tensors and plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most tasks have none
        """Restore what :meth:`state_dict` returned."""

    def local_state_dict(self) -> dict[str, Any]:
        """State of this process alone, such as its shard of a classifier too large for one."""
        return {}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most tasks have none
        """Restore what :meth:`local_state_dict` returned on this process."""


def update(
    loss: Tensor, network: nn.Module, optimizer: Optimizer, accelerator: Accelerator, *, clip: float | None = None
) -> Tensor:
    """Learn from a loss, within ``accelerator.accumulate`` where batches are divided; returns it without its graph.

    Args:
        loss: What to minimise; an error on all processes if it is not finite on one.
        network: What the optimizer updates.
        optimizer: Steps once all parts of a batch have been seen.
        accelerator: Made by :func:`~pinets.engine.loop.make_accelerator`.
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
    """The sum of a tensor over all processes."""
    if accelerator.num_processes == 1:
        return total
    return accelerator.reduce(total.to(accelerator.device), reduction="sum")
