"""The report on training runs: a table with mean and deviation over seeds, curves with bands, one HTML file."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets._files import write_bytes
from pinets.engine.run import RunFolder
from pinets.report.figures import COLORS, Hint, band, drawing_svg, figure_svg, new_figure, tidy
from pinets.report.page import Page, Section, code, paragraph, picture, table
from pinets.report.runs import Groups, summarize
from pinets.report.tables import metric_title, plus_minus, protocols, result_rows

_MOST_HINTS = 2000  # hints in a figure; each is a line of the page
# more networks than colours differ in their lines
_LOOKS = [(color, line) for line, color in product(("-", ":", "-."), COLORS)]

__all__ = ["curve_drawing", "curve_figure", "curves", "write_report"]


def curve_drawing(groups: Groups, metric: str) -> str:
    """A metric of the validation as SVG: for each recipe the mean over its seeds, and a band of one deviation."""
    return drawing_svg(_curves(groups, metric, ("validation",))[0])


def curve_figure(groups: Groups, metric: str, splits: Sequence[str] = ("validation",)) -> str:
    """A metric during training with its caption, for a page.

    Args:
        groups: The runs of each recipe.
        metric: Its name in the logs.
        splits: The splits it was measured on; if there are several, training is dashed.
    """
    several = any(len(runs) > 1 for runs in groups.values())
    caption = "Mean over the seeds; the band is one standard deviation to each side." if several else "One run."
    if len(splits) > 1:
        caption += " Dashed: on the training batches, with augmentation, as they were learnt."
    figure, hints = _curves(groups, metric, splits)
    return figure_svg(figure, caption, alt=f"{metric_title(metric)} by epoch", hints=hints)


def write_report(
    groups: Groups,
    path: str | Path,
    *,
    title: str = "Training runs",
    about: Callable[[RunFolder], Sequence[Section]] | None = None,
) -> None:
    """Write one HTML file with everything in it: table, curves, recipes and environments.

    Args:
        groups: The runs of each recipe.
        path: The file.
        title: The title of the page.
        about: Gives the task's sections about a finished run; called if there is only one run.
    """
    page = Page(title, "What was measured, how it went, and all that is needed to repeat it.")
    finished = [summarize(name, runs) for name, runs in groups.items() if any(run.finished for run in runs)]
    if finished:
        header, *rows = result_rows(finished)
        several = any(summary.runs > 1 for summary in finished)
        note = "Test split, last epoch" + ("; mean and standard deviation over the runs." if several else ".")
        page.section("Result", table(header, rows), paragraph(note), *map(paragraph, protocols(finished)))
    every = [run for runs in groups.values() for run in runs]
    if about is not None and len(every) == 1 and every[0].finished:
        for section in about(every[0]):
            page.section(section.title, *section.content)
    shown = [curve_figure(groups, metric, splits) for metric, splits in curves(groups).items()]
    if shown:
        page.section("Training", f"<div class=stages>{''.join(shown)}</div>" if len(groups) == 1 else "".join(shown))
    for name, runs in groups.items():
        newest = [(run, path) for run in runs for path in run.pictures("samples")[-1:]]  # of generators
        shown = [
            picture(path, f"{run.path}: samples at step {int(path.stem.rpartition('-')[2])}, always of the same noise")
            for run, path in newest
        ]
        contents = [json.dumps(content, indent=2) for content in (runs[0].recipe(), runs[0].environment())]
        page.section(
            name,
            *(paragraph(_state(run)) for run in runs),
            *shown,
            "<details><summary>Recipe and environment</summary>",
            *map(code, contents),
            "</details>",
        )
    write_bytes(path, page.render().encode())


def curves(groups: Groups) -> dict[str, tuple[str, ...]]:
    """The metrics worth a figure, and on which splits they were measured: all of the validation, and the losses."""
    found: dict[str, tuple[str, ...]] = {}
    for split in ("validation", "train"):
        rows = [row for runs in groups.values() for run in runs for row in run.metrics(split)[:1]]
        names = dict.fromkeys(name for row in rows for name in row if name not in ("split", "step", "epoch"))
        for name in names:
            if split == "validation" or name in found or name.endswith("loss"):
                found[name] = (*found.get(name, ()), split)
    return found


def _curves(groups: Groups, metric: str, splits: Sequence[str]) -> tuple[Any, list[Hint]]:
    """The figure, and the numbers at its points."""
    figure, axes = new_figure(*((8, 4.5) if len(groups) > 1 else (5.2, 3.2)))  # one recipe: curves stand side by side
    hints = []
    for (name, runs), (color, line) in zip(groups.items(), cycle(_LOOKS)):
        for split in splits:
            found = [{row["epoch"]: row[metric] for row in run.metrics(split) if metric in row} for run in runs]
            found = [curve for curve in found if curve]  # the last value of each epoch
            if not found:
                continue
            epochs = sorted(set.intersection(*map(set, found)))  # those that all runs have reached
            values = [[curve[epoch] for epoch in epochs] for curve in found]
            dashed = split == "train" and len(splits) > 1
            label = split if len(groups) == 1 else name if not dashed else None
            look = {"linestyle": "--" if dashed else line, "marker": "o" if len(epochs) == 1 else None}
            band(axes, epochs, values, label=label, color=color, **look)
            who = split if len(groups) == 1 else f"{name}, {split}"
            for epoch, *found_there in zip(epochs, *values, strict=True):
                mean = statistics.fmean(found_there)
                hints.append(Hint(axes, epoch, mean, f"{who}, epoch {epoch}: {mean:.5g}"))
    title = metric_title(metric)
    tidy(axes, x="epoch", y=title if len(splits) > 1 else f"{splits[0]} {title}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    reached = {hint.x for hint in hints}
    if len(reached) == 1:
        axes.set_xticks(list(reached))
    hints = [hint for hint in hints if math.isfinite(hint.y)]
    _spread(axes, [hint.y for hint in hints])
    if len(groups) > len(COLORS):
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif axes.lines:
        axes.legend(frameon=False)
    return figure, hints[:_MOST_HINTS]


def _spread(axes: Any, values: Sequence[float]) -> None:
    """Take a logarithmic axis for values that begin far above their end, unless they are shares such as accuracies."""
    if values and max(values) > 1 and 0 < 4 * min(values) < max(values):
        axes.set_yscale("log")
        ticker = require("matplotlib.ticker", extra="train")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())


def _state(run: RunFolder) -> str:
    if run.finished:
        result = run.result()
        numbers = ", ".join(f"{metric_title(name)} {plus_minus(value)}" for name, value in result["test"].items())
        return f"{run.path}: finished in {result['seconds'] / 60:.1f} min; test {numbers}"
    rows = run.metrics()
    return f"{run.path}: not finished" + (f", step {rows[-1]['step']}" if rows else "")
