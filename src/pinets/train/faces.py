"""The task of face recognition: embed faces so that those of one person are close, and score pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pinets._extras import require
from pinets.data.damage import Damage
from pinets.data.faces.face_pairs import FacePairs
from pinets.data.transforms.images import Transform
from pinets.metrics.faces import embed, verify_pairs
from pinets.train.nonfinite import require_finite
from pinets.train.partial_fc import PartialFC
from pinets.train.schedules import Schedule
from pinets.train.task import Split, StatefulBatches, Task

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["FaceRecognition", "Verification"]

_FARS = (0.1, 0.01)
_BATCH = 256  # faces embedded at a time; only speed and memory depend on it


@dataclass(frozen=True)
class Verification:
    """Sets of pairs by name, and what is done to images before they are embedded."""

    sets: Mapping[str, FacePairs]
    transform: Transform


class FaceRecognition(Task):
    """A network trained with a margin on identities; on validation and test, the accuracy of verifying pairs.

    All images of pairs are decoded once at the start: a broken one ends a run there, and not after its first epoch.

    Args:
        network: From images to embeddings.
        optimizer: Of the network.
        schedule: Of the optimiser; the centres of the identities follow its learning rate.
        classifier: The centres of the identities, with the margin.
        batches: Training batches of images and identities, this process's share.
        verification: The pairs of a split.
        accelerator: Made by :func:`~pinets.train.loop.make_accelerator`.
        damage: Counts images that could not be decoded.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Optimizer,
        schedule: Schedule,
        classifier: PartialFC,
        *,
        batches: StatefulBatches,
        verification: Mapping[Split, Verification],
        accelerator: Accelerator,
        damage: Damage | None = None,
    ) -> None:
        self.network, self.optimizer = accelerator.prepare(network, optimizer)
        self.networks = {"model": self.network}
        self.optimizers = {"model": self.optimizer}
        self.schedules = {"model": schedule}
        self.batches = batches
        self.score = f"{next(iter(verification['validation'].sets))}_accuracy"
        self._classifier = classifier
        self._verification = verification
        self._accelerator = accelerator
        self._damage = damage
        for part in verification.values():
            for pairs in part.sets.values():
                for _ in self._images(pairs):
                    pass

    def train_step(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        images, identities = batch[0].to(self._accelerator.device, non_blocking=True), batch[1]
        self.network.train()
        with self._accelerator.accumulate(self.network):
            loss = self._classifier(self.network(images), identities)
            require_finite(loss, self._accelerator)
            scaler = self._accelerator.scaler
            scale = 1.0 if scaler is None else scaler.get_scale()
            self._accelerator.backward(loss)
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer.step()
            if self._accelerator.sync_gradients:
                if self._accelerator.optimizer_step_was_skipped:  # the gradients overflowed in half precision
                    self._classifier.forget()
                else:
                    self._classifier.update(lr, gradient_scale=scale)
            self.optimizer.zero_grad()
        return {"loss": loss.detach()}

    def evaluate(self, split: Split) -> dict[str, float]:
        part = self._verification[split]
        metrics: dict[str, float] = {}
        for name, pairs in part.sets.items():
            scored = verify(self._embed(pairs, part.transform), pairs)
            metrics |= {f"{name}_{metric}": value for metric, value in scored.items()}
        if self._damage is not None and split == "validation":
            gather = require("accelerate.utils", extra="train").gather_object
            metrics["damaged_images"] = float(len(set(gather(list(self._damage.reasons)))))  # some are seen by several
        return metrics

    def local_state_dict(self) -> dict[str, Any]:
        return {"classifier": self._classifier.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        self._classifier.load_state_dict(state["classifier"])

    def _embed(self, pairs: FacePairs, transform: Transform) -> Tensor:
        """The embeddings of all faces; every process embeds some, and all get them."""
        shares = self._shares(pairs)
        batches = (transform.apply(images, torch.empty(len(images), 0)) for images in self._images(pairs))
        with self._accelerator.autocast():
            rows = embed(self._accelerator.unwrap_model(self.network), batches)
        if len(shares) == 1:
            return rows
        longest = len(shares[0])
        padded = torch.cat([rows, rows.new_zeros(longest - len(rows), rows.shape[1])]).to(self._accelerator.device)
        gathered = self._accelerator.gather(padded).cpu().split(longest)
        return torch.cat([part[: len(share)] for part, share in zip(gathered, shares, strict=True)])

    def _shares(self, pairs: FacePairs) -> tuple[Tensor, ...]:
        """The faces that each process embeds."""
        return torch.arange(len(pairs.faces)).tensor_split(self._accelerator.num_processes)

    def _images(self, pairs: FacePairs) -> Iterator[Tensor]:
        """The images of this process's faces, a batch at a time."""
        for part in self._shares(pairs)[self._accelerator.process_index].split(_BATCH):
            yield pairs.faces.read(part, torch.empty(len(part), 0))


def verify(embeddings: Tensor, pairs: FacePairs) -> dict[str, float]:
    """Accuracy over ten folds, its deviation, and true accepts at two rates of false ones."""
    result = verify_pairs(embeddings, pairs.pairs, pairs.same, fars=_FARS)
    return {
        "accuracy": result.accuracy.mean,
        "deviation": result.accuracy.deviation,
        **{f"tar_at_far_{point.far:g}": point.tar for point in result.points},
    }
