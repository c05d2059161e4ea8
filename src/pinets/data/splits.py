"""Holding samples out of a dataset, in the same proportion from every class."""

from __future__ import annotations

import torch
from torch import Tensor

from pinets.data.errors import TooFewSamplesError
from pinets.data.samples import Samples, Splits

__all__ = ["divide", "evenly_chosen", "hold_out", "require_enough", "stratified_indices", "stratified_sample"]


def evenly_chosen(count: int, most: int) -> Tensor:
    """The numbers of at most ``most`` of ``count`` samples, spread evenly over all of them.

    >>> evenly_chosen(10, 4)
    tensor([0, 3, 6, 9])
    """
    return torch.linspace(0, count - 1, min(count, most)).round().long()


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
    sizes = labels.unique(return_counts=True)[1].tolist()
    return _draw(labels, [min(max(round(fraction * size), 1), size - 1) for size in sizes], seed)


def stratified_sample(labels: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """Choose exactly ``count`` samples at random: one of every class, the others in proportion to the classes.

    Example:
        >>> chosen = stratified_sample(torch.tensor([0] * 10 + [1] * 20), 6)
        >>> (chosen < 10).sum(), (chosen >= 10).sum()
        (tensor(2), tensor(4))
    """
    sizes = labels.unique(return_counts=True)[1]
    if not len(sizes) <= count <= len(labels):
        raise ValueError(
            f"count must be at least 1 for each of the {len(sizes)} classes and at most all {len(labels)} samples, "
            f"got {count}"
        )
    others = len(labels) - len(sizes)
    shares = (count - len(sizes)) * (sizes - 1)
    counts = 1 + shares // max(others, 1)
    largest_remainders = (shares % max(others, 1)).argsort(descending=True, stable=True)
    counts[largest_remainders[: count - int(counts.sum())]] += 1
    return _draw(labels, counts.tolist(), seed)


def _draw(labels: Tensor, counts: list[int], seed: int) -> Tensor:
    """The given number of samples of each class, in the order of the dataset."""
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for label, count in zip(labels.unique().tolist(), counts, strict=True):
        members = (labels == label).nonzero().flatten()
        chosen.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(chosen).sort().values if chosen else labels.new_empty(0)


def hold_out(samples: Samples, fraction: float = 0.1, *, seed: int = 0) -> tuple[Samples, Samples]:
    """Divide a dataset in two: the rest, and a stratified fraction that is held out.

    Example:
        >>> from pinets.data import ArraySet
        >>> whole = ArraySet(torch.zeros(50, 1), torch.arange(50) % 5, tuple("abcde"))
        >>> hold_out(whole, 0.2)
        (ArraySet(40 x (1,) float32, 5 classes), ArraySet(10 x (1,) float32, 5 classes))
    """
    require_enough(samples.labels, parts=1)
    held = stratified_indices(samples.labels, fraction, seed=seed)
    remains = torch.ones(len(samples), dtype=torch.bool)
    remains[held] = False
    return samples.subset(remains.nonzero().flatten()), samples.subset(held)


def require_enough(labels: Tensor, *, parts: int) -> None:
    """Refuse a dataset too small to hold out that many parts: each takes a sample of a class, and one must remain."""
    largest = max(labels.unique(return_counts=True)[1].tolist(), default=0)
    if largest <= parts:
        held = "validation samples" if parts == 1 else "validation and test samples"
        raise TooFewSamplesError(
            f"{held} are held out of {len(labels)}, for which a class must have at least {parts + 1}; the largest has "
            f"{largest}"
        )


def divide(samples: Samples, fraction: float, *, seed: int) -> Splits[Samples]:
    """Three parts of a dataset that defines none: a fraction is held out for the test, and again for validation."""
    require_enough(samples.labels, parts=2)
    rest, test = hold_out(samples, fraction, seed=seed)
    return Splits(*hold_out(rest, fraction, seed=seed + 1), test)
