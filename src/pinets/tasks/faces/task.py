"""The training task: embed faces so that those of one person are close, and verify pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets.data.damage import Damage
from pinets.data.samples import read_fixed
from pinets.data.transforms import Transform
from pinets.engine.nonfinite import require_finite
from pinets.engine.task import Split, Task
from pinets.tasks.faces.data.pairs import FacePairs
from pinets.tasks.faces.embeddings import embed
from pinets.tasks.faces.metrics import verify_pairs
from pinets.tasks.faces.partial_fc import PartialFC

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["FaceRecognition", "Verification"]

_FARS = (0.1, 0.01)
_BATCH = 256  # faces embedded at a time; only speed and memory depend on it


@dataclass(frozen=True)
class Verification:
    """Sets of pairs by name, and the transform of images before they are embedded."""

    sets: Mapping[str, FacePairs]
    transform: Transform


class FaceRecognition(Task):
    """A network trained with a margin on identities; validation and test verify pairs.

    All images of pairs are decoded once at the start, so that a broken one ends the run before its first epoch.

    Args:
        network: From images to embeddings.
        verification: The pairs of a split.
        accelerator: Made by :func:`~pinets.engine.loop.make_accelerator`.
        damage: Counts images that could not be decoded.

    Attributes:
        classifier: The centres of the identities, with the margin; training alone needs them. They follow the learning
            rate of the optimizer.
    """

    classifier: PartialFC

    def __init__(
        self,
        network: nn.Module,
        *,
        verification: Mapping[Split, Verification],
        accelerator: Accelerator,
        damage: Damage | None = None,
    ) -> None:
        self.network = accelerator.prepare(network)
        self.networks = {"model": self.network}
        self.score = f"{next(iter(verification['validation'].sets))}_accuracy"
        self._verification = verification
        self._accelerator = accelerator
        self._damage = damage
        for part in verification.values():
            for pairs in part.sets.values():
                for _ in self._images(pairs):
                    pass

    def train_step(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        optimizer = self.optimizers["model"]
        images, identities = batch[0].to(self._accelerator.device, non_blocking=True), batch[1]
        self.network.train()
        with self._accelerator.accumulate(self.network):
            loss = self.classifier(self.network(images), identities)
            require_finite(loss, self._accelerator)
            scaler = self._accelerator.scaler
            scale = 1.0 if scaler is None else scaler.get_scale()
            self._accelerator.backward(loss)
            lr = optimizer.param_groups[0]["lr"]
            optimizer.step()
            if self._accelerator.sync_gradients:
                if self._accelerator.optimizer_step_was_skipped:  # the gradients overflowed in half precision
                    self.classifier.forget()
                else:
                    self.classifier.update(lr, gradient_scale=scale)
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    def evaluate(self, split: Split) -> dict[str, float]:
        part = self._verification[split]
        metrics: dict[str, float] = {}
        for name, pairs in part.sets.items():
            scored = verify(self._embed(pairs, part.transform), pairs)
            metrics |= {f"{name}_{metric}": value for metric, value in scored.items()}
        if self._damage is not None and split == "validation":
            gather = require("accelerate.utils", extra="train").gather_object
            reasons = set(gather(list(self._damage.reasons)))  # several processes may have met the same
            metrics["damaged_images"] = float(len(reasons))
        return metrics

    def local_state_dict(self) -> dict[str, Any]:
        return {"classifier": self.classifier.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        self.classifier.load_state_dict(state["classifier"])

    def _embed(self, pairs: FacePairs, transform: Transform) -> Tensor:
        """The embeddings of all faces: every process embeds a share, and all gather them."""
        shares = self._shares(pairs)
        with self._accelerator.autocast():
            rows = embed(self._accelerator.unwrap_model(self.network), map(transform, self._images(pairs)))
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
            yield read_fixed(pairs.faces, part)


def verify(embeddings: Tensor, pairs: FacePairs) -> dict[str, float]:
    """Accuracy over ten folds, its deviation, and true accepts at two rates of false ones."""
    result = verify_pairs(embeddings, pairs.pairs, pairs.same, fars=_FARS)
    return {
        "accuracy": result.accuracy.mean,
        "deviation": result.accuracy.deviation,
        **{f"tar_at_far_{point.far:g}": point.tar for point in result.points},
    }
