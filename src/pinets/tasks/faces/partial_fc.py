"""The classifier of very many identities, divided among the processes (Partial FC).

Every process holds the centres of some identities, sees the embeddings of the whole batch, and computes its columns of
the logits; the processes exchange embeddings, and of the softmax only a maximum and a sum for each sample. To save
more, a step can use some of the identities only: those in the batch, and a random share of the others.

Random numbers belong to identities and steps, not to processes: any number of processes gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pinets.data.batches import keyed_generator
from pinets.engine.optimization import SGD
from pinets.tasks.faces.arcface import ArcFace, cosines

__all__ = ["PartialFC"]

_BLOCK = 4096  # identities that share a random generator


class PartialFC:
    """Centres of identities, this process's share, trained by SGD.

    Args:
        identities: How many there are.
        embedding: Numbers in an embedding.
        loss: The margin.
        optimizer: The optimizer of the centres; its learning rate is given at each :meth:`update`.
        sample: The share of the identities outside a batch that a step uses.
        seed: Seed of the first centres and of the samples.
        rank: The number of this process.
        world_size: How many there are; they must be connected by ``torch.distributed``.
        device: Where the centres are.

    Example:
        >>> classifier = PartialFC(1000, 16, ArcFace(), SGD(lr=0.1, momentum=0.9), sample=0.1)
        >>> embeddings = torch.randn(4, 16, requires_grad=True)
        >>> loss = classifier(embeddings, torch.tensor([3, 7, 999, 3]))
        >>> loss.backward()
        >>> classifier.update(lr=0.1)
    """

    def __init__(
        self,
        identities: int,
        embedding: int,
        loss: ArcFace,
        optimizer: SGD,
        *,
        sample: float = 1.0,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
    ) -> None:
        if identities < world_size:
            raise ValueError(f"there must be an identity for each of {world_size} processes, got {identities}")
        if not 0 < sample <= 1:
            raise ValueError(f"sample must lie between 0 and 1, got {sample}")
        self.loss, self.optimizer, self.sample, self.seed = loss, optimizer, sample, seed
        self.identities, self.rank, self.world_size = identities, rank, world_size
        self.first, self.last = (part * identities // world_size for part in (rank, rank + 1))
        self.step = 0
        drawn = self._draw("centres", lambda generator: torch.randn(_BLOCK, embedding, generator=generator))
        self.centres = drawn.mul_(0.01).to(device)  # only their directions matter, and how fast these turn
        self.momentum = torch.zeros_like(self.centres)
        self._used: list[tuple[Tensor, Tensor]] = []  # rows of the centres, and these rows with their gradient

    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The mean loss over the batch of all processes, the same on each.

        Args:
            embeddings: Those of this process's share of the batch; all shares are equally large.
            labels: Their identities, best on the CPU, where they are checked.
        """
        self._require_identities(labels)
        labels = labels.to(embeddings.device, non_blocking=True)
        with torch.autocast(embeddings.device.type, enabled=False):
            embeddings = _Gather.apply(embeddings.float(), self.rank, self.world_size)
            labels = _gather(labels, self.world_size)
            rows = self._rows(labels)
            centres = self.centres[rows].requires_grad_(torch.is_grad_enabled())
            target = self._columns(labels, rows)
            logits = self.loss.logits(cosines(embeddings, centres), target)
            if centres.requires_grad:
                self._used.append((rows, centres))
            return _CrossEntropy.apply(logits, target, self.world_size)

    def update(self, lr: float, *, gradient_scale: float = 1.0) -> None:
        """Change the centres that took part since the last update, and forget their gradients.

        Args:
            lr: The learning rate.
            gradient_scale: What the loss was multiplied with before the backward pass.
        """
        rows, gradient = self._gradient()
        centres, momentum = self.centres[rows], self.momentum[rows]
        gradient = gradient.div_(gradient_scale).add_(centres, alpha=self.optimizer.weight_decay)
        momentum = momentum.mul_(self.optimizer.momentum).add_(gradient)
        change = gradient.add_(momentum, alpha=self.optimizer.momentum) if self.optimizer.nesterov else momentum
        self.centres[rows] = centres.sub_(change, alpha=lr)
        self.momentum[rows] = momentum
        self.forget()

    def forget(self) -> None:
        """Skip an update, for instance after the gradients overflowed."""
        self._used = []
        self.step += 1

    def state_dict(self) -> dict[str, Any]:
        """The state of this process's share."""
        return {"centres": self.centres, "momentum": self.momentum, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned on this process."""
        theirs, ours = tuple(state["centres"].shape), tuple(self.centres.shape)
        if theirs != ours:
            raise ValueError(f"the saved centres are {theirs}, and this process has {ours}")
        self.centres.copy_(state["centres"])
        self.momentum.copy_(state["momentum"])
        self.step = state["step"]
        self._used = []

    def _require_identities(self, labels: Tensor) -> None:
        """Refuse labels without a centre, which every process would take for another's.

        Only labels on the CPU are checked: on a GPU the check would have to wait for the device.
        """
        if labels.device.type == "cpu":
            strangers = labels[(labels < 0) | (labels >= self.identities)]
            if len(strangers):
                raise ValueError(f"labels must lie between 0 and {self.identities - 1}, got {int(strangers[0])}")

    def _rows(self, labels: Tensor) -> Tensor:
        """The rows of the centres that take part, in order: those of identities in the batch, and a random share."""
        if self.sample == 1:
            return torch.arange(len(self.centres), device=labels.device)
        drawn = self._draw(self.step, lambda generator: torch.rand(_BLOCK, generator=generator))
        chosen = (drawn < self.sample).to(labels.device)
        chosen[labels[(labels >= self.first) & (labels < self.last)] - self.first] = True
        return chosen.nonzero().flatten()

    def _columns(self, labels: Tensor, rows: Tensor) -> Tensor:
        """Where each sample's identity stands among the rows; -1 where another process has it."""
        column = torch.full((len(self.centres),), -1, dtype=torch.int64, device=labels.device)
        column[rows] = torch.arange(len(rows), device=labels.device)
        mine = (labels >= self.first) & (labels < self.last)
        return torch.where(mine, column[(labels - self.first).clamp(0, len(column) - 1)], -1)

    def _gradient(self) -> tuple[Tensor, Tensor]:
        """The rows that took part in the parts of a batch, and their gradients."""
        if not self._used:
            raise RuntimeError("there is nothing to update: no loss was computed since the last update")
        parts = [(rows, centres.grad) for rows, centres in self._used]
        rows = torch.cat([rows for rows, _ in parts]).unique()
        total = torch.zeros(len(rows), self.centres.shape[1], device=self.centres.device)
        for some, gradient in parts:
            if gradient is None:
                raise RuntimeError("a loss was computed whose gradient was not: call backward before update")
            total.index_add_(0, torch.searchsorted(rows, some), gradient)
        return rows, total

    def _draw(self, key: object, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Random numbers for this process's identities, drawn for whole blocks of them."""
        blocks = range(self.first // _BLOCK, -(-self.last // _BLOCK))
        drawn = torch.cat([draw(keyed_generator(self.seed, key, block)) for block in blocks])
        return drawn[self.first - blocks.start * _BLOCK : self.last - blocks.start * _BLOCK].clone()


class _Gather(torch.autograd.Function):
    """The rows of all processes; backwards, the sum of all processes' gradients for one's own rows.

    Times the number of processes, since the gradients of a network that is trained on all of them are averaged.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rank: int, world_size: int) -> Tensor:
        ctx.rank, ctx.world_size, ctx.count = rank, world_size, len(values)
        return _gather(values, world_size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.world_size == 1:
            return gradient, None, None
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[ctx.rank * ctx.count : (ctx.rank + 1) * ctx.count] * ctx.world_size, None, None


class _CrossEntropy(torch.autograd.Function):
    """The mean cross-entropy of logits whose columns are divided among processes."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, world_size: int) -> Tensor:
        rows = (target >= 0).nonzero().flatten()
        nothing = logits.new_full((len(logits), 1), -torch.inf)  # a process may have no column at all
        largest = _reduce(torch.cat([logits, nothing], dim=1).amax(dim=1), dist.ReduceOp.MAX, world_size)
        shares = (logits - largest[:, None]).exp_()
        total = _reduce(shares.sum(dim=1), dist.ReduceOp.SUM, world_size)
        own = logits.new_zeros(len(logits))
        own[rows] = (logits - largest[:, None])[rows, target[rows]]
        own = _reduce(own, dist.ReduceOp.SUM, world_size)
        ctx.save_for_backward(shares.div_(total[:, None]), rows, target[rows])
        return (total.log() - own).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        shares, rows, columns = ctx.saved_tensors
        difference = shares.clone()
        difference[rows, columns] -= 1
        return difference.mul_(gradient / len(shares)), None, None


def _gather(values: Tensor, world_size: int) -> Tensor:
    if world_size == 1:
        return values.clone()
    parts = [torch.empty_like(values) for _ in range(world_size)]
    dist.all_gather(parts, values.contiguous())
    return torch.cat(parts)


def _reduce(values: Tensor, operation: Any, world_size: int) -> Tensor:
    if world_size > 1:
        dist.all_reduce(values, operation)
    return values
