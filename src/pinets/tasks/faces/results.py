"""Results as data: figures by name, curves and settings, computed from embeddings by each protocol."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets._storage import from_json, read_json, write_json
from pinets.tasks.faces.data import IJB, YaleB
from pinets.tasks.faces.embeddings import read_rows
from pinets.tasks.faces.metrics import (
    GRID,
    OperatingPoint,
    Pooling,
    identify,
    identify_combined,
    identify_separate,
    log_rates,
    measure_megaface,
    operating_points,
    pair_scores,
    pool_templates,
    rank_rates,
    template_scores,
    verify_pairs,
    verify_templates,
)

__all__ = ["FaceResult", "load_results", "score_ijb", "score_megaface", "score_pairs", "score_yaleb"]

Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class FaceResult:
    """The figures of one model in one protocol.

    Attributes:
        model: The model's name.
        protocol: The protocol's name, a heading of the report.
        data: The dataset's name.
        figures: Shares of one by name, in the order of the table.
        deviations: The deviations over folds of some of the figures.
        settings: The choices made, in words.
        curves: By kind: ``"roc"``, the share of true accepts by rate of false ones; ``"cmc"``, the share found by rank.
        pictures: Names of PNG files in the same folder, by caption.
        remarks: Remarks to some of the figures, by their names.
    """

    model: str
    protocol: str
    data: str
    figures: dict[str, float]
    deviations: dict[str, float] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        words = "-".join((self.model, self.protocol, self.data))
        return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in words) + ".json"

    def save(self, folder: PathLike) -> None:
        write_json(Path(folder) / self.file_name, asdict(self))


def load_results(folder: PathLike) -> list[FaceResult]:
    """All results saved in a folder, sorted by file name; other JSON files are skipped, damaged ones with a warning."""
    results = []
    for path in sorted(Path(folder).glob("*.json")):
        try:
            content = read_json(path)
        except ValueError:
            continue
        if not isinstance(content, dict) or not {"model", "protocol", "data", "figures"} <= content.keys():
            continue
        try:
            results.append(from_json(FaceResult, content, str(path)))
        except ValueError as error:
            warnings.warn(f"a result is left out: {error}", stacklevel=2)
    return results


def score_pairs(
    model: str, data: str, embeddings: Any, pairs: Tensor, same: Tensor, *, settings: Mapping[str, str] | None = None
) -> FaceResult:
    """Pairs by LFW's protocol: accuracy over ten folds, and true accepts at rates of false ones.

    Embeddings and pairs are those of :func:`verify_pairs`; ``settings`` are further ones to report, here and below.
    """
    result = verify_pairs(embeddings, pairs, same)
    exact = verify_pairs(embeddings, pairs, same, thresholds=None, fars=())
    curves: dict[str, Curve] = {}
    if result.points:
        scores = pair_scores(embeddings, pairs)
        rates = log_rates(result.impostors)
        curves["roc"] = _roc(operating_points(scores[same], scores[~same], rates))
    return FaceResult(
        model,
        "Pairs",
        data,
        {"accuracy": result.accuracy.mean, "accuracy, exact threshold": exact.accuracy.mean, **_tar(result.points)},
        {"accuracy": result.accuracy.deviation, "accuracy, exact threshold": exact.accuracy.deviation},
        {
            "pairs": f"{result.genuine:,} of one person, {result.impostors:,} of two",
            "thresholds": f"chosen on nine folds from {len(GRID)} squared distances 0.01 apart; exact: from all",
            **(settings or {}),
        },
        curves,
        remarks=_too_fine(result.points, result.impostors),
    )


def score_ijb(
    model: str, data: str, embeddings: Any, meta: IJB, pooling: Pooling, *, settings: Mapping[str, str] | None = None
) -> list[FaceResult]:
    """IJB-B or IJB-C: 1:1 verification and 1:N identification by either convention, where there are meta files for it.

    There is one embedding for each image of the list of templates.
    """
    numbers, rows = pool_templates(
        embeddings, meta.templates, meta.media, detection=meta.detection if pooling.detection else None, pooling=pooling
    )
    told = {"templates": str(pooling), **(settings or {})}
    results = []
    if meta.pairs is not None:
        scores, same = template_scores(numbers, rows, meta.pairs.first, meta.pairs.second), meta.pairs.same
        impostors = int((~same).sum())
        curve = _roc(operating_points(scores[same], scores[~same], log_rates(impostors)))
        points = verify_templates(scores, same)
        results.append(
            FaceResult(
                model,
                "1:1 verification",
                data,
                _tar(points),
                settings={"pairs": f"{int(same.sum()):,} genuine, {impostors:,} impostors", **told},
                curves={"roc": curve},
                remarks=_too_fine(points, impostors),
            )
        )
    if meta.galleries and meta.probes is not None:
        for function in (identify_separate, identify_combined):
            found = function(numbers, rows, meta.probes, meta.galleries)
            figures = {f"FPIR={rate:g}": value for rate, value in found.tpir.items()}
            figures |= {f"rank {k}": value for k, value in found.ranks.items()}
            convention = {
                "separate": "separate (NIST): each gallery by itself, mean of both",
                "combined": "combined (published code): one gallery, scores of others pooled",
            }[found.convention]
            protocol = f"1:N identification, {found.convention} galleries"
            remarks = {f"FPIR={rate:g}": f"at no false positive, {n:,} searches" for rate, n in found.too_fine.items()}
            chosen = {"galleries": convention, **told}
            results.append(FaceResult(model, protocol, data, figures, settings=chosen, remarks=remarks))
    if not results:
        raise ValueError(f"{data}: the meta files have neither pairs of templates nor galleries with probes")
    return results


def score_megaface(
    model: str,
    probes: Any,
    people: Tensor,
    distractors: Any,
    *,
    ranks: int = 100,
    settings: Mapping[str, str] | None = None,
) -> FaceResult:
    """MegaFace: rank 1 among the distractors, true accepts at one false in a million, and both curves."""
    result = measure_megaface(probes, people, distractors, ranks=ranks)
    counts = f"{result.probes:,} of {len(people.unique()):,} people, {result.distractors:,} distractors"
    figures = {f"rank {k}": result.cmc[k - 1] for k in (1, 10, 100) if k <= ranks}
    return FaceResult(
        model,
        "MegaFace",
        "FaceScrub",
        figures | _tar(result.points),
        settings={"probes": counts, **(settings or {})},
        curves={"cmc": [(k + 1, rate) for k, rate in enumerate(result.cmc)], "roc": _roc(result.curve)},
        remarks=_too_fine(result.points, result.probes * result.distractors),
    )


def score_yaleb(model: str, embeddings: Any, faces: YaleB, *, settings: Mapping[str, str] | None = None) -> FaceResult:
    """Extended Yale B, closed set: people are known from the lights of subset 1, and identified in all others."""
    subsets, people = faces.subsets, faces.faces.labels
    rows = read_rows(embeddings)
    gallery = subsets == 1
    figures: dict[str, float] = {}
    ranks = []
    for number in range(2, 6):
        probes = subsets == number
        found = identify(rows[probes], people[probes], rows[gallery], people[gallery])
        figures[f"subset {number}"] = rank_rates(found.rank, [1])[1]
        ranks.append(found.rank)
    whole = torch.cat(ranks)
    curve = rank_rates(whole, range(1, len(faces.faces.classes) + 1))
    told = f"{int(gallery.sum())} images of {len(people.unique())} people, lights within 12°"
    return FaceResult(
        model,
        "Identification by illumination",
        "Extended Yale B",
        {"all": curve[1], **figures},
        settings={"gallery": told, **(settings or {})},
        curves={"cmc": [(float(k), rate) for k, rate in curve.items()]},
    )


def _tar(points: Sequence[OperatingPoint]) -> dict[str, float]:
    return {f"FAR={point.far:g}": point.tar for point in points}


def _too_fine(points: Sequence[OperatingPoint], impostors: int) -> dict[str, str]:
    """Remarks to rates finer than the list: such a figure is not at the rate, but at no false accept at all."""
    return {
        f"FAR={point.far:g}": f"at no false accept, {impostors:,} impostors" for point in points if point.allowed == 0
    }


def _roc(points: Sequence[OperatingPoint]) -> Curve:
    return [(point.far, point.tar) for point in points]
