"""What runs of face recognition are worth beyond their own test: ROC curves, and who is recognised in which light."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from torch import nn

from pinets.data import MissingDataError, data_folder
from pinets.data.faces import open_yaleb
from pinets.data.faces.face_pairs import FacePairs
from pinets.metrics.faces import embed_faces
from pinets.recipes import FaceRecipe, trained
from pinets.report.face_results import FaceResult, score_pairs, score_yaleb
from pinets.report.figures import COLORS, band, drawing_svg, new_figure, tidy
from pinets.report.training import Groups

__all__ = ["light_table", "roc_drawing", "score_lights", "score_test_pairs"]

Results = Mapping[str, Sequence[FaceResult]]  # by recipe, one for each seed


def score_test_pairs(groups: Groups, data_dir: str | Path | None = None) -> dict[str, dict[str, list[FaceResult]]]:
    """The sets of pairs that the recipes test on, by name; of each set, the results of every run."""
    scored: dict[str, dict[str, list[FaceResult]]] = {}
    for name, runs in groups.items():
        for run in runs:
            network, recipe = _network(run.path)
            test: Mapping[str, FacePairs] = recipe.data.load(data_dir).verification["test"].sets
            for data, pairs in test.items():
                rows = embed_faces(network, pairs.faces)
                result = score_pairs(name, data, rows, pairs.pairs, pairs.same)
                scored.setdefault(data, {}).setdefault(name, []).append(result)
    return scored


def score_lights(groups: Groups, data_dir: str | Path | None = None) -> dict[str, list[FaceResult]]:
    """Identification on Extended Yale B by illumination, for every run; nothing where the set is not at hand."""
    found: dict[str, list[FaceResult]] = {}
    for name, runs in groups.items():
        for run in runs:
            network, recipe = _network(run.path)
            try:
                faces = open_yaleb(data_folder(data_dir), size=recipe.data.size)
            except MissingDataError:
                return {}
            found.setdefault(name, []).append(score_yaleb(name, embed_faces(network, faces.faces), faces))
    return found


def roc_drawing(results: Results) -> str:
    """ROC curves on one set as SVG: of each recipe the mean over its seeds, and a band of one deviation."""
    figure, axes = new_figure(7, 4.2)
    for (name, some), color in zip(results.items(), cycle(COLORS)):
        rates = [rate for rate, _ in some[0].curves["roc"]]
        band(axes, rates, [[accepted for _, accepted in one.curves["roc"]] for one in some], color=color, label=name)
    axes.set_xscale("log")
    tidy(axes, x="false accept rate", y="true accept rate")
    axes.set_ylim(0, 1.005)
    axes.legend(frameon=False, loc="lower right")
    return drawing_svg(figure)


def light_table(results: Results) -> list[list[str]]:
    """Rank 1 on Extended Yale B in per cent, mean and deviation over the seeds: a header, and a row for each recipe."""
    figures = list(next(iter(results.values()))[0].figures)
    rows = [["rank 1, %", *figures]]
    rows += [
        [name, *(_spread([100 * one.figures[key] for one in some]) for key in figures)]
        for name, some in results.items()
    ]
    return rows


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{deviation}"


def _network(path: Path) -> tuple[nn.Module, FaceRecipe]:
    found = trained(path)
    if not isinstance(found.recipe, FaceRecipe):
        raise TypeError(f"{path} is not a run of face recognition but of {found.recipe.name}")
    return found.network, found.recipe
