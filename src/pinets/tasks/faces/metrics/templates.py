"""Templates, as in IJB-B and IJB-C: some images and videos of one subject, compared as wholes, 1:1 and 1:N.

For 1:N there are two disjoint galleries, each with half of the subjects, and two conventions in use:

- ``separate``, NIST's: every probe is searched in either gallery. In one it has a mate, in the other it has none, and
  the latter searches give the rate of false positives: the share that return anybody above the threshold. Figures are
  the mean of both galleries.
- ``combined``, of the published code of ArcFace: one gallery of both, in which every probe has a mate. The threshold is
  set by the largest similarities to other subjects, all probes' pooled, as many as the rate times the number of probes;
  a probe that resembles several others counts several times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pinets.tasks.faces.data.ijb import Subjects
from pinets.tasks.faces.embeddings import Matrix, raw_rows, read_rows, require_finite_rows
from pinets.tasks.faces.metrics.identification import Identification, identify, rank_rates
from pinets.tasks.faces.metrics.pairs import pair_scores
from pinets.tasks.faces.metrics.rates import OperatingPoint, operating_points

__all__ = [
    "OpenSet",
    "Pooling",
    "identify_combined",
    "identify_separate",
    "pool_templates",
    "template_scores",
    "verify_templates",
]

_BLOCK = 1 << 14  # images pooled at a time


@dataclass(frozen=True)
class Pooling:
    """How images become templates; the defaults are those of the paper's figures.

    Args:
        normalize: Bring every image's embedding to length one first. Otherwise its length, which is small for faces
            that are hardly recognised, weighs it.
        detection: Weigh every image by the detector's confidence in the face.
        media: Average the frames of a video first, so that it counts as much as a still.
    """

    normalize: bool = False
    detection: bool = True
    media: bool = True

    def __str__(self) -> str:
        normalize, detection, media = (
            "yes" if value else "no" for value in (self.normalize, self.detection, self.media)
        )
        return (
            f"embeddings normalised first {normalize}, weighed by detection {detection}, frames averaged first {media}"
        )


@dataclass(frozen=True)
class OpenSet:
    """The result of 1:N identification.

    Attributes:
        convention: ``"separate"`` or ``"combined"``.
        ranks: The share of probes with a mate whose mate is among the first.
        tpir: By rate of false positives, the share of probes with a mate that score above the threshold with it.
        too_fine: The rates that allow no false positive at all, with the number of searches they are finer than.
    """

    convention: str
    ranks: dict[int, float]
    tpir: dict[float, float]
    too_fine: dict[float, int] = field(default_factory=dict)


@torch.inference_mode()
def pool_templates(
    embeddings: Matrix,
    templates: Tensor,
    media: Tensor,
    *,
    detection: Tensor | None = None,
    pooling: Pooling | None = None,
) -> tuple[Tensor, Tensor]:
    """One embedding of length one for each template: the sum over its media of the mean over their images.

    Args:
        embeddings: One row for each image.
        templates: The number of each image's template.
        media: The number of each image's medium.
        detection: The detector's confidence in each face, for pooling with ``detection``.
        pooling: How to pool; see :class:`Pooling` for the default.

    Returns:
        The numbers of the templates, rising, and their embeddings.

    Example:
        >>> images = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # two frames of a video, and a still
        >>> pool_templates(images, torch.tensor([5, 5, 5]), torch.tensor([1, 1, 2]), pooling=Pooling(detection=False))
        (tensor([5]), tensor([[0.7071, 0.7071]]))
    """
    pooling = pooling or Pooling()
    count = embeddings.shape[0]
    if not (count == len(templates) == len(media)):
        raise ValueError(f"one template and medium for each row, got {count}, {len(templates)} and {len(media)}")
    if pooling.detection and (detection is None or len(detection) != count):
        raise ValueError("pooling weighs images by detection: give a score for each, or Pooling(detection=False)")
    numbers, template = templates.unique(return_inverse=True)
    pairs, medium = torch.stack([template, media if pooling.media else torch.arange(count)], dim=1).unique(
        dim=0, return_inverse=True
    )
    frames = medium.bincount(minlength=len(pairs))
    sums = torch.zeros(len(numbers), embeddings.shape[1], dtype=torch.float64)
    for start in range(0, count, _BLOCK):
        here = slice(start, start + _BLOCK)
        if pooling.normalize:
            rows = read_rows(embeddings, here.start, here.stop)
        else:
            rows = raw_rows(embeddings, here.start, here.stop)
            require_finite_rows(rows, start)
        weights = 1.0 / frames[medium[here]].double()
        if pooling.detection and detection is not None:
            weights = weights * detection[here]
        sums.index_add_(0, template[here], rows * weights[:, None])
    return numbers, read_rows(sums)


def template_scores(numbers: Tensor, embeddings: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The cosine similarity of pairs of templates, by their numbers.

    Args:
        numbers: The numbers of the templates, rising, as :func:`pool_templates` returns them.
        embeddings: The embeddings of the templates.
        first: The number of one template of each pair.
        second: The number of the other.
    """
    return pair_scores(embeddings, torch.stack([_rows(numbers, first), _rows(numbers, second)], dim=1))


def verify_templates(
    scores: Tensor, same: Tensor, fars: Sequence[float] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
) -> list[OperatingPoint]:
    """1:1: the share of genuine pairs accepted at each rate of false accepts, exactly."""
    return operating_points(scores[same], scores[~same], fars)


def identify_separate(
    numbers: Tensor,
    embeddings: Tensor,
    probes: Subjects,
    galleries: Sequence[Subjects],
    *,
    fpirs: Sequence[float] = (0.01, 0.1),
    ranks: Sequence[int] = (1, 5, 10),
) -> OpenSet:
    """1:N with every gallery searched by itself, NIST's convention; the mean of the galleries.

    Args:
        numbers: The numbers of the templates, rising.
        embeddings: The embeddings of the templates.
        probes: The probes.
        galleries: The galleries, with disjoint subjects.
        fpirs: Rates of false positives: the share of searches without a mate that return anybody.
        ranks: The ranks to report.
    """
    results = [_search(numbers, embeddings, probes, gallery) for gallery in galleries]
    tpir: dict[float, float] = {}
    too_fine: dict[float, int] = {}
    for result in results:
        without_mate = result.other[~result.mated]
        for point in operating_points(result.mate[result.mated], without_mate, fpirs):
            tpir[point.far] = tpir.get(point.far, 0.0) + point.tar / len(results)
            if point.allowed == 0:
                too_fine[point.far] = max(len(without_mate), too_fine.get(point.far, 0))
    found = [rank_rates(result.rank, ranks) for result in results]
    return OpenSet("separate", {k: sum(rates[k] for rates in found) / len(found) for k in ranks}, tpir, too_fine)


def identify_combined(
    numbers: Tensor,
    embeddings: Tensor,
    probes: Subjects,
    galleries: Sequence[Subjects],
    *,
    fpirs: Sequence[float] = (0.01, 0.1),
    ranks: Sequence[int] = (1, 5, 10),
) -> OpenSet:
    """1:N with one gallery of all, as published code has it; arguments as for :func:`identify_separate`."""
    whole = Subjects(
        torch.cat([gallery.templates for gallery in galleries]), torch.cat([gallery.subjects for gallery in galleries])
    )
    allowed = [math.ceil(rate * len(probes.templates)) for rate in fpirs]
    result = _search(numbers, embeddings, probes, whole, tail=max(allowed))
    if not result.mated.all():
        missing = int((~result.mated).sum())
        raise ValueError(f"in a combined gallery every probe has a mate, but {missing} have none")
    if len(result.tail) < max(allowed) or min(allowed) < 1:
        raise ValueError(
            f"rates {list(fpirs)} of {len(probes.templates)} probes need scores of others; there are too few"
        )
    tpir = {
        rate: float((result.mate > result.tail[count - 1]).double().mean())
        for rate, count in zip(fpirs, allowed, strict=True)
    }
    return OpenSet("combined", rank_rates(result.rank, ranks), tpir)


def _search(numbers: Tensor, embeddings: Tensor, probes: Subjects, gallery: Subjects, tail: int = 0) -> Identification:
    return identify(
        embeddings[_rows(numbers, probes.templates)],
        probes.subjects,
        embeddings[_rows(numbers, gallery.templates)],
        gallery.subjects,
        tail=tail,
    )


def _rows(numbers: Tensor, templates: Tensor) -> Tensor:
    """The rows of templates by their numbers."""
    rows = torch.searchsorted(numbers, templates).clamp(max=len(numbers) - 1)
    strangers = numbers[rows] != templates
    if strangers.any():
        raise ValueError(
            f"{int(strangers.sum())} templates have no embedding, the first is {int(templates[strangers][0])}"
        )
    return rows
