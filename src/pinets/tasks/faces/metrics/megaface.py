"""MegaFace's first challenge: find a person among a million distractors, and verify at one false accept in a million.

- Identification: for every two images of one person, one is the probe and the other is put among the distractors; its
  rank is 1 plus the number of distractors that are at least as similar to the probe.
- Verification: the pairs of one person against all pairs of a probe and a distractor.

The best distractors of every probe and the largest similarities of all are enough for exact figures; one pass over the
distractors finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pinets.tasks.faces.embeddings import Matrix, read_rows
from pinets.tasks.faces.metrics.gallery import BLOCK, search
from pinets.tasks.faces.metrics.rates import OperatingPoint, allowed_false, log_rates, operating_points_from_tail

__all__ = ["MegaFace", "measure_megaface", "mate_pairs"]

_PAIRS = 1 << 16  # pairs ranked at a time


@dataclass(frozen=True)
class MegaFace:
    """The result of MegaFace.

    Attributes:
        cmc: The share of ordered pairs of one person found at rank 1, 2, ..., ``ranks``.
        points: True accepts at each rate of false accepts.
        curve: The same at many rates, up to the largest of these, for a figure.
        probes: How many images.
        distractors: How many.
        genuine: Ordered pairs of one person.
    """

    cmc: tuple[float, ...]
    points: tuple[OperatingPoint, ...]
    curve: tuple[OperatingPoint, ...]
    probes: int
    distractors: int
    genuine: int


def mate_pairs(people: Tensor) -> Tensor:
    """All ordered pairs of two images of one person, (P, 2).

    >>> mate_pairs(torch.tensor([4, 9, 4])).tolist()
    [[0, 2], [2, 0]]
    """
    order = people.argsort(stable=True)
    parts = [people.new_empty((0, 2), dtype=torch.int64)]  # of nobody there are no pairs
    for group in order.split(people.unique(return_counts=True)[1].tolist()):
        pairs = torch.cartesian_prod(group, group)
        parts.append(pairs[pairs[:, 0] != pairs[:, 1]])
    return torch.cat(parts)


@torch.inference_mode()
def measure_megaface(
    probes: Matrix,
    people: Tensor,
    distractors: Matrix,
    *,
    ranks: int = 100,
    fars: Sequence[float] = (1e-6, 1e-5, 1e-4),
    block: int = BLOCK,
) -> MegaFace:
    """Identification and verification, in one pass over the distractors.

    Args:
        probes: Embeddings of FaceScrub's images, one per row.
        people: The person each shows.
        distractors: Embeddings of MegaFace's images; may be a mapped file.
        ranks: How far to follow the ranks.
        fars: Rates of false accepts. The largest decides how many scores are kept: its share of all.
        block: Distractors to compare at a time.

    Example:
        >>> probes = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
        >>> distractors = torch.tensor([[1.0, 1.0], [-1.0, 0.5]])
        >>> measure_megaface(probes, torch.tensor([0, 0, 1, 1]), distractors, ranks=1, fars=[0.1]).cmc
        (1.0,)
    """
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")
    if probes.shape[0] != len(people):
        raise ValueError(f"one person for each probe, got {probes.shape[0]} probes and {len(people)} people")
    pairs = mate_pairs(people)
    if not len(pairs):
        raise ValueError("nobody has two images among the probes: there is nothing to find")
    impostors = probes.shape[0] * distractors.shape[0]
    most = max(allowed_false(far, impostors) for far in fars)
    found = search(probes, distractors, k=ranks, tail=most + 1, block=block)
    genuine = _mate_scores(read_rows(probes), pairs)
    # counting among the best is enough: others are not ahead, or the rank is beyond ``ranks``
    rank = torch.cat(
        [
            1 + (found.scores[some[:, 0]] >= scores[:, None]).sum(dim=1)
            for some, scores in zip(pairs.split(_PAIRS), genuine.split(_PAIRS), strict=True)
        ]
    )
    cmc = rank.bincount(minlength=ranks + 2)[1 : ranks + 1].cumsum(0).double() / len(rank)
    rates = [rate for rate in log_rates(impostors, max(fars)) if allowed_false(rate, impostors) < len(found.tail)]
    return MegaFace(
        tuple(cmc.tolist()),
        tuple(operating_points_from_tail(genuine, found.tail, impostors, fars)),
        tuple(operating_points_from_tail(genuine, found.tail, impostors, rates)),
        probes.shape[0],
        distractors.shape[0],
        len(pairs),
    )


def _mate_scores(rows: Tensor, pairs: Tensor, block: int = 256) -> Tensor:
    """The similarity of pairs of probes, by products as those with distractors: equal rows then score equally."""
    scores = torch.empty(len(pairs))
    for start in range(0, len(rows), block):
        product = rows[start : start + block] @ rows.t()
        here = ((pairs[:, 0] >= start) & (pairs[:, 0] < start + block)).nonzero().squeeze(1)
        scores[here] = product[pairs[here, 0] - start, pairs[here, 1]]
    return scores
