"""Training on data in memory: mini-batches by index, early stopping, and a history."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

__all__ = ["Fetch", "History", "Loss", "Samples", "Score", "adamw", "fit"]

Fetch = Callable[[Tensor], tuple[Tensor, Tensor]]
Loss = Callable[[Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class Samples:
    """Samples that are prepared batch by batch.

    Args:
        fetch: Returns the inputs and targets of the rows with the given numbers. It can densify sparse rows or
            standardise raw ones, so that only one prepared batch exists at a time.
        rows: Numbers of the rows that belong to these samples: training and validation can share one ``fetch``.
        weights: Weight of each row, by row number (one entry for each row that ``fetch`` knows); equal if left out.
    """

    fetch: Fetch
    rows: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.rows.ndim != 1 or self.rows.numel() == 0:
            raise ValueError(f"rows must be a vector of at least one row number, got shape {tuple(self.rows.shape)}")
        if self.weights is not None:
            used = self.weights[self.rows]
            if used.ndim != 1 or not bool((used >= 0).all()) or not float(used.sum()) > 0:
                raise ValueError("weights must be a vector of numbers that are not negative and not all zero")

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Samples:
        """All rows of two tensors.

        >>> Samples.of(torch.zeros(5, 2), torch.arange(5)).fetch(torch.tensor([3, 1]))[1]
        tensor([3, 1])
        """
        if len(inputs) != len(targets) or (weights is not None and len(weights) != len(inputs)):
            lengths = [len(tensor) for tensor in (inputs, targets, weights) if tensor is not None]
            raise ValueError(f"inputs, targets and weights must have the same number of rows, got {lengths}")
        return cls(lambda rows: (inputs[rows], targets[rows]), torch.arange(len(inputs)), weights)


@dataclass
class History:
    """Losses, scores and seconds by epoch; the validation lists stay empty without validation samples."""

    train_loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best_epoch: int | None = None  # counted from 1; the epoch whose state was restored

    @property
    def epochs(self) -> int:
        return len(self.train_loss)


def adamw(model: nn.Module, *, learning_rate: float, weight_decay: float = 0.0) -> torch.optim.AdamW:
    """AdamW that decays the matrices and leaves the bias vectors alone.

    >>> [len(group["params"]) for group in adamw(nn.Linear(3, 2), learning_rate=0.01).param_groups]
    [1, 1]
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if parameter.ndim > 1]
    vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
    groups = [
        {"params": group, "weight_decay": decay} for group, decay in ((matrices, weight_decay), (vectors, 0.0)) if group
    ]
    # fused: for small models the optimizer's loop over parameters would cost as much as the backward pass
    return torch.optim.AdamW(groups, lr=learning_rate, fused=True)


def fit(
    model: nn.Module,
    samples: Samples,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator | None = None,
    cosine: bool = False,
    validation: Samples | None = None,
    score: Score | None = None,
    patience: int | None = None,
    on_epoch: Callable[[History], None] | None = None,
) -> History:
    r"""Train a module in place and return the history.

    Each step follows the gradient of the weighted mean :math:`\frac{1}{m} \sum_i w_i \ell_i` over a batch of
    :math:`m` samples, with the weights scaled to mean one over all samples: in expectation, and exactly if the batch
    is everything, a weight of two is the sample given twice.

    Args:
        model: Trained in place; its mode (training or evaluation) is restored.
        samples: The training samples.
        loss: ``loss(outputs, targets)``, one value per sample (``reduction="none"``); without weights a mean will do.
        optimizer: Over the model's parameters, for instance from :func:`adamw`. Its state continues from call to call.
        epochs: How often to go through the samples.
        batch_size: At most this many samples per step; all steps of an epoch get equally many, give or take one.
        generator: Shuffles the samples; a fresh one with a fixed seed if left out.
        cosine: Let the learning rate fall to zero along half a cosine; it is set back in the end.
        validation: Samples to evaluate on after each epoch.
        score: ``score(outputs, targets)`` over all of ``validation``, recorded only.
        patience: Stop after this many epochs without a lower validation loss, and restore the best state. Without it
            the validation is only recorded.
        on_epoch: Called with the history so far after each epoch.

    Raises:
        FloatingPointError: The loss became infinite or NaN.

    Example:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> line = nn.Linear(1, 1)
        >>> loss = lambda outputs, targets: (outputs - targets).square().mean(1)
        >>> history = fit(line, Samples.of(x, 3 * x), loss, adamw(line, learning_rate=0.1), epochs=50, batch_size=16)
        >>> round(line.weight.item(), 1)
        3.0
    """
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"epochs and batch_size must be at least 1, got {epochs} and {batch_size}")
    if patience is not None and (validation is None or patience < 1):
        raise ValueError(f"patience must be at least 1 and needs validation samples, got {patience}")
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    steps = math.ceil(len(samples.rows) / batch_size)
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    best: dict[str, Tensor] = {}
    history, mode = History(), model.training

    def set_rates(done: float) -> None:
        """The rates after so many epochs: half a cosine from one to zero."""
        factor = 0.5 * (1 + math.cos(math.pi * done / epochs))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = factor * rate

    try:
        for epoch in range(1, epochs + 1):
            started = time.perf_counter()
            anneal = set_rates if cosine else None
            history.train_loss.append(_train(model, samples, loss, optimizer, steps, generator, epoch, anneal))
            if validation is not None:
                outputs, targets, validation_loss = _evaluate(model, validation, loss, batch_size)
                history.validation_loss.append(_finite(validation_loss, f"the validation of epoch {epoch}", optimizer))
                if score is not None:
                    history.validation_score.append(score(outputs, targets))
                if patience is not None and validation_loss < min(history.validation_loss[:-1], default=math.inf):
                    history.best_epoch = epoch
                    best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            history.seconds.append(time.perf_counter() - started)
            if on_epoch is not None:
                on_epoch(history)
            if patience is not None and epoch - (history.best_epoch or 0) >= patience:
                break
    finally:
        set_rates(0.0)
        model.train(mode)
    if best:
        model.load_state_dict(best)
    return history


def _train(
    model: nn.Module,
    samples: Samples,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    steps: int,
    generator: torch.Generator,
    epoch: int,
    anneal: Callable[[float], None] | None,
) -> float:
    """One epoch in a new order; returns the mean loss."""
    weights, total = _mean_one(samples), 0.0
    order = samples.rows[torch.randperm(len(samples.rows), generator=generator)]
    model.train()
    for step, rows in enumerate(order.tensor_split(steps), start=1):
        if anneal is not None:
            anneal(epoch - 1 + (step - 1) / steps)
        inputs, targets = samples.fetch(rows)
        value = _weighted_mean(loss(model(inputs), targets), None if weights is None else weights[rows])
        total += len(rows) * _finite(value.item(), f"step {step} of {steps} in epoch {epoch}", optimizer)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return total / len(samples.rows)


def _evaluate(model: nn.Module, samples: Samples, loss: Loss, batch_size: int) -> tuple[Tensor, Tensor, float]:
    """All outputs and targets, and their weighted mean loss, from one batch of inputs at a time."""
    weights, total = _mean_one(samples), 0.0
    outputs, targets = [], []
    model.eval()
    with torch.no_grad():
        for rows in samples.rows.tensor_split(math.ceil(len(samples.rows) / batch_size)):
            batch, truth = samples.fetch(rows)
            outputs.append(model(batch))
            targets.append(truth)
            value = _weighted_mean(loss(outputs[-1], truth), None if weights is None else weights[rows])
            total += len(rows) * value.item()
    return torch.cat(outputs), torch.cat(targets), total / len(samples.rows)


def _mean_one(samples: Samples) -> Tensor | None:
    return None if samples.weights is None else samples.weights / samples.weights[samples.rows].mean()


def _weighted_mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return losses.mean()
    if losses.shape != weights.shape:
        raise ValueError(
            f"weighted samples need a loss with one value per sample (reduction='none'): expected shape "
            f"{tuple(weights.shape)}, got {tuple(losses.shape)}"
        )
    return (losses * weights.to(losses)).mean()


def _finite(value: float, where: str, optimizer: torch.optim.Optimizer) -> float:
    if not math.isfinite(value):
        rate = max(group["lr"] for group in optimizer.param_groups)
        raise FloatingPointError(
            f"the loss is {value} at {where}; lower the learning rate (now {rate:g}), the order of the polynomial, or "
            f"the scale of the inputs and targets"
        )
    return value
