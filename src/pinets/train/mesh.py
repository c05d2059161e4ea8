"""The task of autoencoding shapes: L1 on standardised vertices, the error in millimetres on validation and test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pinets.data.sets.meshes import Standardize
from pinets.metrics.mesh import VertexError
from pinets.train.schedules import Schedule
from pinets.train.task import Split, StatefulBatches, Task, sum_over_processes, update

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["MeshAutoencoding"]

Shapes = tuple[Tensor, Tensor]  # standardised, and the labels that Batches gives


class MeshAutoencoding(Task):
    """Reconstruct shapes through a bottleneck.

    Args:
        network: Gives standardised shapes from standardised shapes.
        optimizer: Of its parameters; none where nothing is left to train.
        schedule: Of the optimiser.
        batches: Training batches of standardised shapes, this process's share.
        samples: Gives this process's share of a split, standardised, once through.
        standardize: What the shapes went through.
        millimetres: How many of them the unit of the positions has.
        accelerator: Made by :func:`~pinets.train.loop.make_accelerator`.
        clip: Largest norm of the gradient; ``None`` for no limit.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Optimizer | None,
        schedule: Schedule | None,
        *,
        batches: StatefulBatches,
        samples: Callable[[Split], Iterable[Shapes]],
        standardize: Standardize,
        millimetres: float,
        accelerator: Accelerator,
        clip: float | None = None,
    ) -> None:
        if optimizer is None:
            self.network, self.optimizer = accelerator.prepare(network), None
        else:
            self.network, self.optimizer = accelerator.prepare(network, optimizer)
        self.networks = {"model": self.network}
        self.optimizers = {} if self.optimizer is None else {"model": self.optimizer}
        self.schedules = {} if schedule is None else {"model": schedule}
        self.batches = batches
        self.standardize = standardize
        self.millimetres = millimetres
        self._samples = samples
        self._accelerator = accelerator
        self._clip = clip

    def train_step(self, batch: Shapes) -> dict[str, Tensor]:
        shapes = batch[0].to(self._accelerator.device, non_blocking=True)
        if self.optimizer is None:
            with torch.no_grad():
                return {"loss": (self.network(shapes) - shapes).abs().mean()}
        self.network.train()
        with self._accelerator.accumulate(self.network):
            loss = (self.network(shapes) - shapes).abs().mean()
            return {"loss": update(loss, self.network, self.optimizer, self._accelerator, clip=self._clip)}

    @torch.no_grad()
    def evaluate(self, split: Split) -> dict[str, float]:
        # the bare network: the processes may have different numbers of batches, and must not wait for each other
        network = self._accelerator.unwrap_model(self.network).eval()
        error = VertexError(self.millimetres)
        for shapes, _ in self._samples(split):
            if len(shapes):
                shapes = shapes.to(self._accelerator.device)
                with self._accelerator.autocast():
                    out = network(shapes)
                error.update(self.standardize.undo(out.float()), self.standardize.undo(shapes))
        return error.compute(partial(sum_over_processes, accelerator=self._accelerator))
