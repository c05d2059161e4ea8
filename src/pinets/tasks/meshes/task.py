"""The task of autoencoding shapes: L1 on standardised vertices, the error in millimetres on validation and test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pinets.engine.task import Split, Task, sum_over_processes, update
from pinets.tasks.meshes.mesh_set import Standardize
from pinets.tasks.meshes.metrics import VertexError

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["MeshAutoencoding"]

Shapes = tuple[Tensor, Tensor]  # standardised shapes, and labels, which are not used


class MeshAutoencoding(Task):
    """Reconstruct shapes through a bottleneck.

    Args:
        network: Gives standardised shapes from standardised shapes.
        samples: Gives this process's share of a split, standardised, once through.
        standardize: What the shapes went through.
        millimetres: How many of them the unit of the positions has.
        accelerator: Made by :func:`~pinets.engine.loop.make_accelerator`.
        clip: Largest norm of the gradient; ``None`` for no limit.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        samples: Callable[[Split], Iterable[Shapes]],
        standardize: Standardize,
        millimetres: float,
        accelerator: Accelerator,
        clip: float | None = None,
    ) -> None:
        self.network = accelerator.prepare(network)
        self.networks = {"model": self.network}
        self.standardize = standardize
        self.millimetres = millimetres
        self._samples = samples
        self._accelerator = accelerator
        self._clip = clip

    def train_step(self, batch: Shapes) -> dict[str, Tensor]:
        shapes = batch[0].to(self._accelerator.device, non_blocking=True)
        if not self.optimizers:  # principal components have nothing to train
            with torch.no_grad():
                return {"loss": (self.network(shapes) - shapes).abs().mean()}
        self.network.train()
        with self._accelerator.accumulate(self.network):
            loss = (self.network(shapes) - shapes).abs().mean()
            return {"loss": update(loss, self.network, self.optimizers["model"], self._accelerator, clip=self._clip)}

    @torch.no_grad()
    def evaluate(self, split: Split) -> dict[str, float]:
        # unwrapped: processes with fewer batches must not wait for the others
        network = self._accelerator.unwrap_model(self.network).eval()
        error = VertexError(self.millimetres)
        for shapes, _ in self._samples(split):
            if len(shapes):
                shapes = shapes.to(self._accelerator.device)
                with self._accelerator.autocast():
                    out = network(shapes)
                error.update(self.standardize.undo(out.float()), self.standardize.undo(shapes))
        return error.compute(partial(sum_over_processes, accelerator=self._accelerator))
