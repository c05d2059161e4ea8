"""What classification needs: averages and top-k accuracy, streamed, over any number of processes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Mean", "Reduce", "TopKAccuracy", "count_top_k"]

Reduce = Callable[[Tensor], Tensor]  # sums a tensor over all processes


def count_top_k(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """How many rows have fewer than ``k`` classes scored above their label, or level with it and before it.

    Ties go to the class that comes first, so that a network that has collapsed to one value for all classes is right by
    chance, not always.

    >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
    >>> count_top_k(scores, torch.tensor([1, 1]), k=1), count_top_k(scores, torch.tensor([1, 1]), k=2)
    (tensor(1), tensor(2))
    """
    own = logits.gather(1, labels[:, None])
    before = torch.arange(logits.shape[1], device=logits.device) < labels[:, None]
    ahead = ((logits > own) | ((logits == own) & before)).sum(dim=1)
    # a comparison with NaN is false: without this, a network that gives NaN would be right everywhere
    return ((ahead < k) & ~logits.isnan().any(dim=1)).sum()


class Mean:
    """The mean of a value over all samples seen, by all processes.

    >>> loss = Mean()
    >>> loss.update(2.0, count=3)
    >>> loss.update(4.0, count=1)
    >>> loss.compute()
    2.5
    """

    def __init__(self) -> None:
        self.total = torch.zeros(2, dtype=torch.float64)  # sum, number of samples

    def update(self, mean: Tensor | float, count: int) -> None:
        """Add ``count`` samples, given their mean."""
        self.total += torch.tensor([float(mean) * count, count], dtype=torch.float64)

    def compute(self, reduce: Reduce = lambda total: total) -> float:
        total, count = reduce(self.total).tolist()
        return total / count


class TopKAccuracy:
    """The share of samples whose label is among the ``k`` classes scored highest.

    >>> accuracy = TopKAccuracy(1)
    >>> accuracy.update(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    >>> accuracy.compute()
    0.5
    """

    higher_is_better = True

    def __init__(self, k: int = 1) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        self.k = k
        self.total = torch.zeros(2, dtype=torch.int64)  # right, all

    def update(self, logits: Tensor, labels: Tensor) -> None:
        self.total += torch.stack([count_top_k(logits, labels, self.k).cpu(), torch.tensor(len(labels))])

    def compute(self, reduce: Reduce = lambda total: total) -> float:
        right, count = reduce(self.total).tolist()
        return right / count
