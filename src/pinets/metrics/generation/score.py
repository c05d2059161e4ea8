"""The Inception score, from sums."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["InceptionScore"]


class InceptionScore:
    r"""How sure a classifier is of each image, and how many classes all images together have.

    .. math:: \exp \big( \mathrm{E}_x \, \mathrm{KL}(p(y|x) \,\|\, p(y)) \big)

    in every split, mean and standard deviation over the splits, which are consecutive. Only sums are kept.

    Args:
        samples: How many there will be.
        splits: Into how many parts of equal size they are divided.

    Example:
        >>> score = InceptionScore(samples=4, splits=2)
        >>> score.update(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).log())
        >>> score.compute()  # each image certain, two classes in either split
        (2.0, 0.0)
    """

    higher_is_better = True

    def __init__(self, samples: int, splits: int = 10) -> None:
        if splits < 1 or samples < splits or samples % splits:
            raise ValueError(f"{samples} samples cannot be divided into {splits} parts of equal size")
        self.size = samples // splits
        self.seen = 0
        self.splits = splits
        self.information = torch.zeros(splits, dtype=torch.float64)  # sum of p log p
        self.probabilities: Tensor | None = None  # sum of p, (splits, classes)

    def update(self, log_probabilities: Tensor) -> None:
        """Add images by the logarithms of their classes' probabilities (N, classes)."""
        logs = log_probabilities.detach().to("cpu", torch.float64)
        if self.seen + len(logs) > self.size * self.splits:
            raise ValueError(f"got {self.seen + len(logs)} samples, but {self.size * self.splits} were announced")
        if self.probabilities is None:
            self.probabilities = torch.zeros(self.splits, logs.shape[1], dtype=torch.float64)
        p = logs.exp()
        split = torch.arange(self.seen, self.seen + len(logs)) // self.size
        self.probabilities.index_add_(0, split, p)
        self.information.index_add_(0, split, _entropy_terms(p, logs))
        self.seen += len(logs)

    def compute(self) -> tuple[float, float]:
        if self.probabilities is None or self.seen < self.size * self.splits:
            raise ValueError(f"{self.size * self.splits} samples were announced, but there are {self.seen}")
        mean = self.probabilities / self.size
        scores = (self.information / self.size - _entropy_terms(mean, mean.log())).exp()
        return float(scores.mean()), float(scores.std(correction=0))


def _entropy_terms(p: Tensor, logs: Tensor) -> Tensor:
    return torch.where(p > 0, p * logs, 0).sum(dim=1)  # 0 log 0 = 0
