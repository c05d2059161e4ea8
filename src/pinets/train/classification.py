"""The first task: a network that gives one score per class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from pinets.metrics import Mean, TopKAccuracy
from pinets.train.schedules import Schedule
from pinets.train.task import Split, StatefulBatches, Task, sum_over_processes, update

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Classification"]

Labelled = tuple[Tensor, Tensor]


class Classification(Task):
    """Cross-entropy on labelled batches; top-k accuracy on validation and test.

    Args:
        network: Gives the scores of the classes.
        optimizer: Of its parameters.
        schedule: Of the optimiser.
        batches: Training batches of inputs and labels, this process's share.
        samples: Gives this process's share of a split, once through.
        accelerator: Made by :func:`~pinets.train.loop.make_accelerator`.
        label_smoothing: Share of the target spread over all classes.
        clip: Largest norm of the gradient; ``None`` for no limit.
        top_k: The accuracies to compute; the first decides.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Optimizer,
        schedule: Schedule,
        *,
        batches: StatefulBatches,
        samples: Callable[[Split], Iterable[Labelled]],
        accelerator: Accelerator,
        label_smoothing: float = 0.0,
        clip: float | None = None,
        top_k: tuple[int, ...] = (1,),
    ) -> None:
        self.network, self.optimizer = accelerator.prepare(network, optimizer)
        self.networks = {"model": self.network}
        self.optimizers = {"model": self.optimizer}
        self.schedules = {"model": schedule}
        self.batches = batches
        self.score = _name(top_k[0])
        self._samples = samples
        self._accelerator = accelerator
        self._label_smoothing = label_smoothing
        self._clip = clip
        self._top_k = top_k

    def train_step(self, batch: Labelled) -> dict[str, Tensor]:
        inputs, labels = self._place(batch)
        self.network.train()
        with self._accelerator.accumulate(self.network):
            scores = self.network(inputs)
            loss = F.cross_entropy(scores, labels, label_smoothing=self._label_smoothing)
            loss = update(loss, self.network, self.optimizer, self._accelerator, clip=self._clip)
        right = (scores.detach().argmax(dim=1) == labels).float().mean()
        return {"loss": loss, "accuracy": right}

    @torch.no_grad()
    def evaluate(self, split: Split) -> dict[str, float]:
        # the bare network: the processes may have different numbers of batches, and must not wait for each other
        network = self._accelerator.unwrap_model(self.network).eval()
        mean_loss, accuracies = Mean(), {k: TopKAccuracy(k) for k in self._top_k}
        for batch in self._samples(split):
            inputs, labels = self._place(batch)
            if len(labels) == 0:  # this process's share of a last batch with fewer samples than processes
                continue
            with self._accelerator.autocast():
                scores = network(inputs).float()
            mean_loss.update(F.cross_entropy(scores, labels), len(labels))
            for accuracy in accuracies.values():
                accuracy.update(scores, labels)
        total = partial(sum_over_processes, accelerator=self._accelerator)
        return {
            "loss": mean_loss.compute(total),
            **{_name(k): accuracy.compute(total) for k, accuracy in accuracies.items()},
        }

    def _place(self, batch: Labelled) -> Labelled:
        inputs, labels = (tensor.to(self._accelerator.device, non_blocking=True) for tensor in batch)
        return inputs, labels


def _name(k: int) -> str:
    return "accuracy" if k == 1 else f"top{k}_accuracy"
