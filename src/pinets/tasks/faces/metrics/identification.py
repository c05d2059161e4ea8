"""Identification: finding the subject of a probe in a gallery, in closed sets and in open ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.tasks.faces.embeddings import Matrix, read_blocks

__all__ = ["Identification", "identify", "rank_rates"]

_SCORES = 1 << 24  # scores held at a time, 64 MB


@dataclass(frozen=True, eq=False)
class Identification:
    """The result of searching a gallery, for each probe.

    Attributes:
        mate: The similarity to its own subject; minus infinity if that is not in the gallery.
        other: The similarity to the most similar other subject.
        rank: The number of subjects at least as similar as its own, counting itself, so 1 is right; 0 if its subject is
            not in the gallery.
        tail: The largest similarities of all to other subjects, falling.
    """

    mate: Tensor
    other: Tensor
    rank: Tensor
    tail: Tensor

    @property
    def mated(self) -> Tensor:
        """Whether a probe's subject is in the gallery."""
        return self.rank > 0


@torch.inference_mode()
def identify(
    probes: Matrix, probe_subjects: Tensor, gallery: Matrix, gallery_subjects: Tensor, *, tail: int = 0
) -> Identification:
    """Search a gallery of subjects for each probe; a subject is as similar as its most similar row.

    A subject that is exactly as similar as the probe's own counts as ahead of it, so that embeddings which tell nothing
    apart find nobody.

    Args:
        probes: Embeddings, one per row.
        probe_subjects: The subject of each probe.
        gallery: Embeddings to search; several rows may show one subject.
        gallery_subjects: The subject of each row.
        tail: How many of the largest similarities to other subjects to return.

    Example:
        >>> found = identify(
        ...     torch.tensor([[1.0, 0.1], [0.1, 1.0]]), torch.tensor([7, 9]), torch.eye(2), torch.tensor([7, 8])
        ... )
        >>> found.rank, found.mated
        (tensor([1, 0]), tensor([ True, False]))
    """
    for name, rows, subjects in (("probes", probes, probe_subjects), ("gallery", gallery, gallery_subjects)):
        if rows.shape[0] != len(subjects) or not len(subjects):
            raise ValueError(f"{name}: one subject for each row, and some; got {rows.shape[0]} and {len(subjects)}")
    known, column = gallery_subjects.unique(return_inverse=True)
    own = torch.searchsorted(known, probe_subjects).clamp(max=len(known) - 1)
    mated = known[own] == probe_subjects
    parts = []
    largest = torch.empty(0)
    for start, rows in read_blocks(probes, max(1, _SCORES // max(len(known), 1))):
        scores = _subject_scores(rows, gallery, column, len(known))
        here = slice(start, start + len(rows))
        with_mate = mated[here].nonzero().squeeze(1)
        column_of_mate = own[here][with_mate]
        mate = torch.full((len(rows),), -torch.inf)
        mate[with_mate] = scores[with_mate, column_of_mate]
        scores[with_mate, column_of_mate] = -torch.inf  # other subjects remain
        rank = torch.where(mated[here], 1 + (scores >= mate[:, None]).sum(dim=1), 0)
        parts.append((mate, scores.amax(dim=1), rank))
        if tail:
            largest = torch.cat([largest, scores[scores > -torch.inf]])
            largest = largest.topk(min(tail, len(largest))).values
    mate, other, rank = (torch.cat(values) for values in zip(*parts, strict=True))
    return Identification(mate, other, rank, largest)


def rank_rates(rank: Tensor, ranks: Sequence[int]) -> dict[int, float]:
    """The share of mated probes whose subject is among the first; ranks of 0 are of probes that have none.

    >>> rank_rates(torch.tensor([1, 3, 0, 1]), [1, 5])
    {1: 0.6666666666666666, 5: 1.0}
    """
    mated = rank[rank > 0]
    if not len(mated):
        raise ValueError("no probe's subject is in the gallery: there is no rank to tell")
    return {k: float((mated <= k).double().mean()) for k in ranks}


def _subject_scores(rows: Tensor, gallery: Matrix, column: Tensor, subjects: int) -> Tensor:
    """The similarity of every probe to every subject, (probes, subjects)."""
    best = torch.full((len(rows), subjects), -torch.inf)
    for start, part in read_blocks(gallery, max(1, _SCORES // len(rows))):
        columns = column[start : start + len(part)].expand(len(rows), -1)
        best.scatter_reduce_(1, columns, rows @ part.t(), reduce="amax")
    return best
