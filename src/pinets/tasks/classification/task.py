"""Classification: a network that gives one score per class, and its accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pinets.engine.task import Split, Task, sum_over_processes, update
from pinets.tasks.classification.range_penalty import (
    BatchStatistics,
    Damage,
    LayerOutputs,
    RangePenalty,
    matching_layers,
)
from pinets.tasks.classification.robustness import Attacker, Certifier
from pinets.tasks.classification.teacher import Lesson

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Classification", "count_top_k"]

Labelled = tuple[Tensor, Tensor]


class Classification(Task):
    """Cross-entropy on labelled batches; top-k accuracy on validation and test.

    Args:
        network: Gives the scores of the classes.
        samples: Returns this process's share of a split, once through.
        accelerator: Made by :func:`~pinets.engine.loop.make_accelerator`.
        damage: Damages the images that only the penalty sees; needed if ``range_penalty.damaged`` is above 0.
        robust: Moves the training inputs first, or adds a loss, for a network whose answers are to be proven around
            inputs.
        others: The values of :class:`~pinets.tasks.classification.recipe.ClassificationRecipe`. Schedules watch the
            first of ``top_k``; with ``average``, the average is what is evaluated and saved as ``model``.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        samples: Callable[[Split], Iterable[Labelled]],
        accelerator: Accelerator,
        label_smoothing: float = 0.0,
        clip: float | None = None,
        top_k: tuple[int, ...] = (1,),
        range_penalty: RangePenalty | None = None,
        damage: Damage | None = None,
        average: float = 0.0,
        input_noise: float = 0.0,
        robust: Attacker | Certifier | None = None,
    ) -> None:
        self._average: AveragedModel | None = None
        if average:  # also of batch-norm statistics: the last step's would not fit averaged weights
            moving = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(average), use_buffers=True)
            self._average = moving.requires_grad_(False).to(accelerator.device)
        self._range_penalty = range_penalty
        self._damage = damage
        if range_penalty is not None:  # after the copy above: the average has no hooks
            self._outputs = LayerOutputs(matching_layers(network, range_penalty.layers))
            if damage is not None:
                self._statistics = BatchStatistics(network)
        self.network = accelerator.prepare(network)
        self.networks = {"model": self.network}
        if self._average is not None:
            self.networks = {"model": self._average.module, "trained": self.network}
        self.score = _name(top_k[0])
        self._samples = samples
        self._accelerator = accelerator
        self._label_smoothing = label_smoothing
        self._clip = clip
        self._top_k = top_k
        self._input_noise = input_noise
        self._robust = robust
        self._teacher: Lesson | None = None
        self._updates = 0

    def train_step(self, batch: Labelled) -> dict[str, Tensor]:
        inputs, labels = self._place(batch)
        if self._input_noise:
            inputs = inputs + self._input_noise * torch.randn_like(inputs)
        if isinstance(self._robust, Attacker):
            self.network.eval()  # batch statistics are those of the moved inputs alone
            inputs = self._robust(self.network, inputs, labels)
        self.network.train()
        logged: dict[str, Tensor] = {}
        with self._accelerator.accumulate(self.network):
            scores, penalty = self._penalised(inputs)
            loss = F.cross_entropy(scores, labels, label_smoothing=self._label_smoothing)
            if self._teacher is not None:
                with self._accelerator.autocast():
                    taught = self._teacher.loss(inputs, scores)
                logged["teacher_loss"] = taught.detach()
                loss = (1 - self._teacher.weight) * loss + self._teacher.weight * taught
            if isinstance(self._robust, Certifier):
                bare = self._accelerator.unwrap_model(self.network)
                certified = self._robust.loss(bare, inputs, labels, self._updates)
                logged["certified_loss"] = certified.detach()
                loss = (1 - self._robust.weight) * loss + self._robust.weight * certified
            if penalty is not None:
                logged["range_penalty"] = penalty.detach()
                loss = loss + penalty
            loss = update(loss, self.network, self.optimizers["model"], self._accelerator, clip=self._clip)
        self._updates += self._accelerator.sync_gradients
        if self._average is not None and self._accelerator.sync_gradients:
            self._average.update_parameters(self._accelerator.unwrap_model(self.network))
        right = (scores.detach().argmax(dim=1) == labels).float().mean()
        return {"loss": loss, "accuracy": right, **logged}

    def _penalised(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The scores, and the penalty for the outputs of layers on the way."""
        penalty = self._range_penalty
        if penalty is None:
            return self.network(inputs), None
        if self._damage is None:
            with self._outputs.recording() as outputs:
                scores = self.network(inputs)
            return scores, penalty.of(outputs)
        with self._outputs.recording() as outputs, self._statistics.doing("keep"):
            scores = self.network(inputs)
        cost = penalty.of(outputs)
        self.network.eval()  # the running averages are those of the images alone
        with self._outputs.recording() as outputs, self._statistics.doing("use"):
            self.network(self._damage(inputs[: math.ceil(penalty.damaged * len(inputs))]))
        self.network.train()
        return scores, cost + penalty.of(outputs)

    def learn_from(self, teacher: Lesson) -> None:
        """Add the loss of learning from a trained network."""
        teacher.network.to(self._accelerator.device)
        self._teacher = teacher

    def grow_ball(self, updates: int) -> None:
        """Let the ball of certified training grow over this many updates."""
        if isinstance(self._robust, Certifier):
            self._robust.growing = max(1, updates)

    @torch.no_grad()
    def evaluate(self, split: Split) -> dict[str, float]:
        # the bare network: the processes may have different numbers of batches, and must not wait for each other
        network = self._accelerator.unwrap_model(self.networks["model"]).eval()
        totals = torch.zeros(2 + len(self._top_k), dtype=torch.float64)  # samples, their loss, right answers by k
        for batch in self._samples(split):
            inputs, labels = self._place(batch)
            if len(labels) == 0:  # this process's share of a last batch with fewer samples than processes
                continue
            with self._accelerator.autocast():
                scores = network(inputs).float()
            loss = float(F.cross_entropy(scores, labels)) * len(labels)
            right = [int(count_top_k(scores, labels, k)) for k in self._top_k]
            totals += torch.tensor([len(labels), loss, *right], dtype=torch.float64)
        count, *sums = sum_over_processes(totals, self._accelerator).tolist()
        return dict(zip(("loss", *map(_name, self._top_k)), (total / count for total in sums), strict=True))

    def state_dict(self) -> dict[str, Any]:
        averaged = {} if self._average is None else {"averaged": int(self._average.n_averaged)}
        return averaged | ({"updates": self._updates} if isinstance(self._robust, Certifier) else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._updates = state.get("updates", 0)
        if self._average is not None:
            self._average.n_averaged.fill_(state["averaged"])

    def _place(self, batch: Labelled) -> Labelled:
        inputs, labels = (tensor.to(self._accelerator.device, non_blocking=True) for tensor in batch)
        return inputs, labels


def _name(k: int) -> str:
    return "accuracy" if k == 1 else f"top{k}_accuracy"


def count_top_k(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Number of rows whose label is among the ``k`` highest scores.

    Of equal scores the first class counts as the highest, so that a network which gives all classes the same score is
    right by chance, not always.

    >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
    >>> count_top_k(scores, torch.tensor([1, 1]), k=1), count_top_k(scores, torch.tensor([1, 1]), k=2)
    (tensor(1), tensor(2))
    """
    own = logits.gather(1, labels[:, None])
    before = torch.arange(logits.shape[1], device=logits.device) < labels[:, None]
    ahead = ((logits > own) | ((logits == own) & before)).sum(dim=1)
    # comparisons with NaN are false: without this, a network that gives NaN would always be right
    return ((ahead < k) & ~logits.isnan().any(dim=1)).sum()
