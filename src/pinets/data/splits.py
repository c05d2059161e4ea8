"""Holding samples out of a set, in the same proportion from every class."""

from __future__ import annotations

import torch
from torch import Tensor

from pinets.data.errors import DataError
from pinets.data.samples import Samples, Splits

__all__ = ["divide", "hold_out", "stratified_indices"]


def stratified_indices(labels: Tensor, fraction: float, *, seed: int = 0) -> Tensor:
    """Choose a fraction of every class at random; the same seed gives the same choice.

    Every class with at least two samples gives at least one and keeps at least one.

    Example:
        >>> chosen = stratified_indices(torch.tensor([0] * 10 + [1] * 20), 0.2)
        >>> (chosen < 10).sum(), (chosen >= 10).sum()
        (tensor(2), tensor(4))
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for label in labels.unique().tolist():
        members = (labels == label).nonzero().flatten()
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        chosen.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(chosen).sort().values if chosen else labels.new_empty(0)


def hold_out(samples: Samples, fraction: float = 0.1, *, seed: int = 0) -> tuple[Samples, Samples]:
    """Divide a set in two: what remains, and a stratified fraction held out of it.

    Example:
        >>> from pinets.data import ArraySet
        >>> whole = ArraySet(torch.zeros(50, 1), torch.arange(50) % 5, tuple("abcde"))
        >>> hold_out(whole, 0.2)
        (ArraySet(40 x (1,) float32, 5 classes), ArraySet(10 x (1,) float32, 5 classes))
    """
    held = stratified_indices(samples.labels, fraction, seed=seed)
    if len(held) == 0:
        raise DataError(f"nothing can be held out of {len(samples)} samples: no class has two of them")
    remains = torch.ones(len(samples), dtype=torch.bool)
    remains[held] = False
    return samples.subset(remains.nonzero().flatten()), samples.subset(held)


def divide(samples: Samples, fraction: float, *, seed: int) -> Splits[Samples]:
    """Three parts of a set that brings none: the fraction is held out for the test, and again for validation."""
    rest, test = hold_out(samples, fraction, seed=seed)
    return Splits(*hold_out(rest, fraction, seed=seed + 1), test)
