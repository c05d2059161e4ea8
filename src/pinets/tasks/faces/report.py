"""Tables, curves and pictures of face recognition, and one HTML report of them. Metrics are computed elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._files import PathLike, write_bytes
from pinets.data.errors import DataError
from pinets.data.samples import read_fixed
from pinets.data.splits import evenly_chosen
from pinets.engine.trained import TrainedRun
from pinets.report import (
    COLORS,
    Page,
    Section,
    band,
    drawing_png,
    drawing_svg,
    figure_svg,
    new_figure,
    paragraph,
    picture,
    table,
    tidy,
)
from pinets.tasks.faces.data.pairs import FacePairs
from pinets.tasks.faces.embeddings import embed
from pinets.tasks.faces.metrics import hardest_pairs, pair_scores
from pinets.tasks.faces.results import FaceResult, load_results, score_pairs

__all__ = ["face_table", "hardest_sheet", "light_table", "roc_drawing", "run_sections", "write_face_report"]

Results = Mapping[str, Sequence[FaceResult]]  # by recipe, one for each seed

_MOST_PAIRS = 1000  # pairs of the first test set that are looked at, evenly chosen; a report is not an evaluation
_HARDEST = 8
_BATCH = 64

# datasets in the order of the paper's tables; others come last
_DATA = ("LFW", "CFP-FF", "CFP-FP", "CPLFW", "AgeDB-30", "CALFW", "Caucasian", "Indian", "Asian", "African")


def face_table(results: Sequence[FaceResult]) -> list[list[str]]:
    """A table of results of one protocol in per cent: its header, then its rows.

    As in the paper, pairs have a row for each dataset and a column for each model; other protocols have a row for each
    model.

    >>> one = FaceResult("ResNet50", "Pairs", "LFW", {"accuracy": 0.99733}, {"accuracy": 0.00309})
    >>> face_table([one])
    [['accuracy, %', 'ResNet50'], ['LFW', '99.733 ± 0.309']]
    """
    models = list(dict.fromkeys(result.model for result in results))
    found = {(result.model, result.data): result for result in results}
    if results[0].protocol != "Pairs":
        names = list(dict.fromkeys((result.data, name) for result in results for name in result.figures))
        several = len({data for data, _ in names}) > 1
        header = ["%", *(f"{data} {name}" if several else name for data, name in names)]
        rows = [[model, *(_cell(found.get((model, data)), name) for data, name in names)] for model in models]
        return [header, *rows]
    order = {name: place for place, name in enumerate(_DATA)}
    sets = sorted(dict.fromkeys(result.data for result in results), key=lambda name: order.get(name, len(order)))
    rows = [["accuracy, %", *models]]
    rows += [[data, *(_cell(found.get((model, data)), "accuracy") for model in models)] for data in sets]
    others = [name for result in results for name in result.figures if name != "accuracy"]
    for name in dict.fromkeys(others):
        words = name.replace("FAR=", "true accepts at FAR=")
        rows += [[f"{data}, {words}", *(_cell(found.get((model, data)), name) for model in models)] for data in sets]
    return rows


def write_face_report(folder: PathLike, path: PathLike | None = None) -> Path:
    """Write one self-contained HTML file about all results saved in a folder.

    Args:
        folder: Holds files that ``FaceResult.save`` wrote.
        path: The page; ``report.html`` in the folder if left out.
    """
    folder = Path(folder)
    results = load_results(folder)
    if not results:
        raise FileNotFoundError(f"{folder} holds no results of evaluated faces")
    page = Page("Face recognition", "Verification and identification, by protocol; figures are exact counts.")
    for protocol in dict.fromkeys(result.protocol for result in results):
        some = [result for result in results if result.protocol == protocol]
        header, *rows = face_table(some)
        told = [
            f"{result.model}, {result.data}: " + "; ".join(f"{key}: {value}" for key, value in result.settings.items())
            for result in some
            if result.settings
        ]
        content = [table(header, rows), *map(paragraph, dict.fromkeys(told))]
        for data in dict.fromkeys(result.data for result in some):
            here = [result for result in some if result.data == data]
            content += [curve_figure(here, kind) for kind in ("roc", "cmc") if any(kind in r.curves for r in here)]
            content += [shown for result in here for shown in _pictures(folder, result)]
        page.section(protocol, *content)
    target = folder / "report.html" if path is None else Path(path)
    write_bytes(target, page.render().encode())
    return target


def run_sections(run: TrainedRun) -> list[Section]:
    """The sections about faces in the report of a run: test pairs as a ROC curve and by score, and the worst pairs."""
    part = run.data.verification["test"]
    name, pairs = next(iter(part.sets.items()))
    chosen = evenly_chosen(len(pairs), _MOST_PAIRS)
    faces, rows = pairs.pairs[chosen].unique(return_inverse=True)
    images = (read_fixed(pairs.faces, some) for some in faces.split(_BATCH))
    found = embed(run.network(), map(part.transform, images))
    same, scores = pairs.same[chosen], pair_scores(found, rows)
    result = score_pairs(run.recipe.name, name, found, rows, same)
    some = FacePairs(pairs.faces, pairs.pairs[chosen], same)
    sheet = hardest_sheet(some, scores, hardest_pairs(scores, same, _HARDEST))
    told = f"{len(chosen):,} of {len(pairs):,} pairs of {name}: accuracy {_cell(result, 'accuracy')} %."
    hardest = "Above, pairs of one person that look least alike to the network; below, pairs of two that look most so."
    curves = [curve_figure([result], "roc")] if result.curves else []
    return [
        Section("Pairs of faces", paragraph(told), *curves, score_figure(scores, same)),
        Section("The pairs it gets most wrong", picture(sheet, hardest)),
    ]


def score_figure(scores: Tensor, same: Tensor) -> str:
    """A histogram of similarities, for pairs of one person and pairs of two."""
    figure, axes = new_figure(7, 3)
    edges = torch.linspace(float(scores.min()), float(scores.max()) + 1e-6, 41).tolist()
    for chosen, color, label in ((same, COLORS[0], "one person"), (~same, COLORS[1], "two people")):
        axes.hist(scores[chosen].tolist(), bins=edges, color=color, alpha=0.6, label=label)
    tidy(axes, x="cosine similarity", y="pairs")
    axes.legend(frameon=False)
    caption = "Similarity of the pairs. Where the two heaps overlap, no threshold is right for all."
    return figure_svg(figure, caption, alt="similarities of pairs of one person and of two")


def _pictures(folder: Path, result: FaceResult) -> list[str]:
    """The pictures of a result that lie in the folder itself: in a stranger's result, a name may lead to any file."""
    files = [(folder / name, caption) for caption, name in result.pictures.items() if name == Path(name).name]
    return [picture(file, caption) for file, caption in files if file.is_file() and not file.is_symlink()]


def curve_figure(results: Sequence[FaceResult], kind: str) -> str:
    """The curves of some models on one dataset, with the rates or ranks on a logarithmic axis."""
    figure, axes = new_figure(7, 4.2)
    for result, color in zip(results, cycle(COLORS)):
        if kind in result.curves:
            x, y = zip(*result.curves[kind], strict=True)
            axes.plot(x, y, color=color, label=result.model, drawstyle="steps-post")
    axes.set_xscale("log")
    words = {"roc": ("false accept rate", "true accept rate"), "cmc": ("rank", "share found")}[kind]
    tidy(axes, title=f"{kind.upper()}, {results[0].data}", x=words[0], y=words[1])
    axes.set_ylim(top=1.005)
    axes.legend(frameon=False, loc="lower right")
    return figure_svg(figure, f"{words[1].capitalize()} by {words[0]}.", alt=f"{kind.upper()} of {results[0].data}")


def hardest_sheet(pairs: FacePairs, scores: Tensor, kinds: tuple[Tensor, Tensor]) -> bytes:
    """A PNG of the least similar pairs of one person above, and of the most similar pairs of two below.

    Args:
        pairs: With their images.
        scores: Similarity of each pair.
        kinds: The numbers of the pairs of either kind.
    """
    columns = max(map(len, kinds))
    figure, grid = new_figure(1.05 * columns + 0.4, 4.9, nrows=2, ncols=columns, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for row, chosen in zip(grid, kinds, strict=True):
        for axes, number in zip(row, chosen.tolist(), strict=False):
            axes.set_title(f"{float(scores[number]):.2f}", fontsize=9)
            try:
                above, below = read_fixed(pairs.faces, pairs.pairs[number])
            except DataError:  # embeddings from files are scored all the same
                axes.text(0.5, 0.5, "cannot be\ndecoded", ha="center", va="center", fontsize=7)
                continue
            gap = torch.full_like(above[:, : max(1, above.shape[1] // 32)], 255)
            axes.imshow(torch.cat([above, gap, below], dim=1).permute(1, 2, 0).expand(-1, -1, 3).numpy())
    for row, words in zip(grid, ("one person, least similar", "two people, most similar"), strict=True):
        row[0].set_ylabel(words, fontsize=9)
    return drawing_png(figure)


def roc_drawing(results: Results) -> str:
    """ROC curves on one dataset as SVG: the mean over the seeds of each recipe, with a band of one deviation."""
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
    """Rank 1 on Extended Yale B in per cent, mean and deviation over seeds: a header, then a row for each recipe."""
    figures = list(next(iter(results.values()))[0].figures)
    rows = [["rank 1, %", *figures]]
    rows += [
        [name, *(_spread([100 * one.figures[key] for one in some]) for key in figures)]
        for name, some in results.items()
    ]
    return rows


def _cell(result: FaceResult | None, name: str) -> str:
    if result is None or name not in result.figures:
        return "-"
    value, digits = 100 * result.figures[name], 3 if result.protocol == "Pairs" else 2
    deviation: Any = result.deviations.get(name)
    remark = result.remarks.get(name)
    return (
        f"{value:.{digits}f}"
        + ("" if deviation is None else f" ± {100 * deviation:.{digits}f}")
        + ("" if remark is None else f" ({remark})")
    )


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{deviation}"
