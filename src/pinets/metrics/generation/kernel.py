"""The kernel distance (KID): an unbiased estimate, which needs fewer samples than the Fréchet distance."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["kernel_distance", "polynomial_discrepancy"]


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
        subsets: How many; 100 is what everyone uses.
        size: Of a subset; all features where there are fewer.
        seed: Of the choice.
    """
    size = min(size, len(real), len(fake))
    if size < 2:
        raise ValueError(f"KID needs at least 2 samples of either kind, got {len(real)} and {len(fake)}")
    generator = torch.Generator().manual_seed(seed)

    def choose(features: Tensor) -> Tensor:
        return features[torch.randperm(len(features), generator=generator)[:size]]

    values = torch.stack([polynomial_discrepancy(choose(real), choose(fake)) for _ in range(subsets)])
    return float(values.mean()), float(values.std(correction=0))
