"""Distances between generated and real images from their features: FID, KID, precision and recall, IS."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "InceptionScore",
    "Moments",
    "frechet_distance",
    "kernel_distance",
    "polynomial_discrepancy",
    "precision_recall",
]

_ROWS = 1000  # rows of the matrix of distances in memory, for precision and recall


class Moments:
    """Mean and covariance of features; keeps two sums in float64, however many features it sees.

    >>> moments = Moments(2)
    >>> moments.update(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> moments.update(torch.tensor([[4.0, 1.0]]))
    >>> moments.mean
    tensor([2., 1.], dtype=torch.float64)
    >>> moments.covariance
    tensor([[4., 0.], [0., 0.]], dtype=torch.float64)
    """

    def __init__(self, num_features: int) -> None:
        self.count = 0
        self.total = torch.zeros(num_features, dtype=torch.float64)
        self.products = torch.zeros(num_features, num_features, dtype=torch.float64)

    def update(self, features: Tensor) -> None:
        """Add features (N, D)."""
        rows = features.detach().to("cpu", torch.float64)
        self.count += len(rows)
        self.total += rows.sum(dim=0)
        self.products.addmm_(rows.T, rows)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def covariance(self) -> Tensor:
        if self.count < 2:
            raise ValueError(f"a covariance needs at least 2 samples, got {self.count}")
        return (self.products - self.count * torch.outer(self.mean, self.mean)) / (self.count - 1)


def frechet_distance(mean1: Tensor, covariance1: Tensor, mean2: Tensor, covariance2: Tensor) -> float:
    r"""The squared Fréchet (2-Wasserstein) distance between two Gaussians.

    .. math:: |\mu_1 - \mu_2|^2 + \mathrm{tr}(\Sigma_1 + \Sigma_2 - 2 (\Sigma_1 \Sigma_2)^{1/2})

    The trace of the last root is the sum of the singular values of :math:`\Sigma_1^{1/2} \Sigma_2^{1/2}`. That is exact
    also without full rank, where roots of the eigenvalues of :math:`\Sigma_1 \Sigma_2` make much of rounding errors.

    Example:
        >>> one, two = torch.eye(3), 4 * torch.eye(3)
        >>> frechet_distance(torch.zeros(3), one, torch.ones(3), two)  # 3 of the means, 3 * (2 - 1)^2 of the rest
        6.0
    """
    mean1, covariance1, mean2, covariance2 = (t.double() for t in (mean1, covariance1, mean2, covariance2))
    overlap = torch.linalg.svdvals(_root(covariance1) @ _root(covariance2)).sum()
    distance = (mean1 - mean2).square().sum() + covariance1.trace() + covariance2.trace() - 2 * overlap
    return float(distance)


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T


def polynomial_discrepancy(x: Tensor, y: Tensor) -> Tensor:
    r"""The unbiased squared maximum mean discrepancy with the kernel :math:`(x^T y / D + 1)^3`.

    Args:
        x: Features (M, D).
        y: Features (N, D).
    """

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.T / a.shape[1] + 1).double() ** 3

    def mean_of_pairs(a: Tensor) -> Tensor:
        values = kernel(a, a)
        return (values.sum() - values.trace()) / (len(a) * (len(a) - 1))

    return mean_of_pairs(x) + mean_of_pairs(y) - 2 * kernel(x, y).mean()


def kernel_distance(
    real: Tensor, fake: Tensor, *, subsets: int = 100, size: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """KID: mean and standard deviation of the discrepancy over random subsets.

    Args:
        real: Features (M, D).
        fake: Features (N, D).
        subsets: The number of subsets; 100 is what everyone uses.
        size: The size of a subset; all features if there are fewer.
        seed: Seed of the choice.
    """
    size = min(size, len(real), len(fake))
    if size < 2:
        raise ValueError(f"KID needs at least 2 samples of either kind, got {len(real)} and {len(fake)}")
    generator = torch.Generator().manual_seed(seed)

    def choose(features: Tensor) -> Tensor:
        return features[torch.randperm(len(features), generator=generator)[:size]]

    values = torch.stack([polynomial_discrepancy(choose(real), choose(fake)) for _ in range(subsets)])
    return float(values.mean()), float(values.std(correction=0))


def precision_recall(real: Tensor, fake: Tensor, k: int = 3) -> tuple[float, float]:
    """Precision, the share of fakes that lie among the real samples, and recall, the reverse.

    A sample lies among others if it is within the distance of one of them to its ``k``-th nearest neighbour
    (Kynkäänniemi et al. 2019, with the features given here).

    Args:
        real: Features (M, D).
        fake: Features (N, D).
        k: Which neighbour.

    Example:
        >>> real = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
        >>> precision_recall(real, torch.tensor([[0.5], [1.5], [40.0], [41.0]]), k=1)
        (0.5, 0.75)
    """
    if min(len(real), len(fake)) <= k:
        raise ValueError(f"neighbour {k} needs more than {k} samples of either kind, got {len(real)} and {len(fake)}")
    return _share_within(fake, real, k), _share_within(real, fake, k)


def _share_within(samples: Tensor, others: Tensor, k: int) -> float:
    radii = torch.cat([_neighbour(others, first, k) for first in range(0, len(others), _ROWS)])
    inside = [(torch.cdist(part, others) <= radii).any(dim=1) for part in samples.split(_ROWS)]
    return float(torch.cat(inside).double().mean())


def _neighbour(features: Tensor, first: int, k: int) -> Tensor:
    """The distance of some rows to their k-th nearest other row."""
    distances = torch.cdist(features[first : first + _ROWS], features)
    distances.diagonal(first).fill_(torch.inf)  # a sample is not its own neighbour
    return distances.kthvalue(k, dim=1).values


class InceptionScore:
    r"""The Inception score: high if each image has a clear class, and all classes occur.

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
