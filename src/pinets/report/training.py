"""Reports of training runs: tables with mean and deviation over seeds, curves with deviation bands, one HTML file."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from pinets._files import write_bytes
from pinets.recipes import RecipeError, recipe_from_json, to_json
from pinets.report.figures import COLORS, band, drawing_svg, figure_svg, new_figure, tidy
from pinets.report.page import Page, code, paragraph, table
from pinets.report.pictures import picture_html
from pinets.report.text import aligned
from pinets.train.run import RunFolder, changed_keys

__all__ = [
    "RecipeSummary",
    "curve_drawing",
    "curve_figure",
    "curves",
    "group_runs",
    "protocols",
    "result_rows",
    "summarize",
    "text_table",
    "write_report",
]

Groups = Mapping[str, Sequence[RunFolder]]


@dataclass(frozen=True)
class RecipeSummary:
    """What the finished runs of one recipe came to.

    Args:
        name: Of the recipe, with its scale.
        runs: How many are finished.
        parameters: Of its networks, but not of a discriminator, which only serves to train another.
        seconds: Mean time of a run.
        metrics: Of the last epoch on the test split: mean and standard deviation over the seeds.
        protocol: How they were measured, where their names do not tell.
    """

    name: str
    runs: int
    parameters: int
    seconds: float
    metrics: dict[str, tuple[float, float]]
    protocol: str = ""


def group_runs(paths: Sequence[str | Path]) -> dict[str, list[RunFolder]]:
    """The runs in the given folders by recipe, the seed aside; a folder is a run, or holds runs at any depth.

    A run is counted once, however often it is named. Recipes of one name whose values differ are told apart by these
    values. A run whose files are damaged is left out with a warning, where there are others.
    """
    variants: dict[str, list[tuple[dict[str, Any], list[RunFolder]]]] = {}
    for run, recipe in _readable(_find_runs(paths)):
        title = recipe["name"] if recipe["scale"] == "full" else f"{recipe['name']}-{recipe['scale']}"
        known = variants.setdefault(title, [])
        same = next((runs for values, runs in known if not changed_keys(values, recipe)), None)
        if same is None:
            known.append((recipe, [run]))
        else:
            same.append(run)
    return {
        title + difference: runs
        for title, known in variants.items()
        for difference, (_, runs) in zip(_differences([values for values, _ in known]), known, strict=True)
    }


def _find_runs(paths: Sequence[str | Path]) -> list[RunFolder]:
    found: dict[Path, RunFolder] = {}
    for path in map(Path, paths):
        folders = sorted(file.parent for file in path.rglob("recipe.json"))
        if not folders:
            raise FileNotFoundError(f"there is no run in {path}: no recipe.json")
        for folder in folders:
            found.setdefault(folder.resolve(), RunFolder(folder))
    return list(found.values())


def _readable(runs: Sequence[RunFolder]) -> list[tuple[RunFolder, dict[str, Any]]]:
    """The runs whose files can be read, with their recipes."""
    readable = []
    for run in runs:
        try:
            recipe = _recipe_without_seed(run)
            run.metrics()
            if run.finished:
                _require_keys(run.result_file, run.result(), "test", "parameters", "seconds")
            readable.append((run, recipe))
        except ValueError as error:
            if len(runs) == 1:
                raise
            warnings.warn(f"the run in {run.path} is left out: {error}", stacklevel=3)
    return readable


def _recipe_without_seed(run: RunFolder) -> dict[str, Any]:
    """What runs of one recipe have in common, with the defaults of keys that a run is older than."""
    recipe = _require_keys(run.recipe_file, run.recipe(), "name", "scale")
    with suppress(RecipeError):  # one of another version, or of somebody's own: as it is
        recipe = to_json(recipe_from_json(recipe))
    return {key: value for key, value in recipe.items() if key != "seed"}


def _require_keys(file: Path, content: Any, *keys: str) -> dict[str, Any]:
    missing = [key for key in keys if key not in content] if isinstance(content, dict) else keys
    if missing:
        raise ValueError(f"{file} is damaged: it has no {', '.join(missing)}")
    return content  # type: ignore[no-any-return]


def _differences(recipes: Sequence[dict[str, Any]]) -> list[str]:
    """What tells recipes of one name apart, for each: the values of the keys in which they differ; of one, nothing.

    >>> _differences([{"clip": 1, "lr": 0.1}, {"clip": 2, "lr": 0.1}])
    [' (clip=1)', ' (clip=2)']
    """
    if len(recipes) == 1:
        return [""]
    first, *others = recipes
    keys = dict.fromkeys(key for other in others for key, _, _ in changed_keys(first, other))
    told = [", ".join(filter(None, (_told(recipe, key) for key in keys))) for recipe in recipes]
    return [f" ({values})" if values else "" for values in told]


def _told(recipe: Mapping[str, Any], key: str) -> str:
    """A value of a recipe as it is set on a command line; empty where the recipe has no such key."""
    value: Any = recipe
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ""
        value = value[part]
    return f"{key.replace('.options.', '.').removesuffix('.kind')}={'none' if value is None else value}"


def summarize(name: str, runs: Sequence[RunFolder]) -> RecipeSummary:
    """Mean and deviation over the finished runs of one recipe."""
    results = [run.result() for run in runs if run.finished]
    if not results:
        raise ValueError(f"no run of {name} is finished")
    # a metric that one of them lacks, as its weights were missing there, has no mean over all
    shared = [key for key in results[0]["test"] if all(key in result["test"] for result in results)]
    values = {key: [result["test"][key] for result in results] for key in shared}
    return RecipeSummary(
        name=name,
        runs=len(results),
        parameters=sum(count for name, count in results[0]["parameters"].items() if name != "discriminator"),
        seconds=statistics.fmean(result["seconds"] for result in results),
        metrics={key: (statistics.fmean(found), _deviation(found)) for key, found in values.items()},
        protocol=" and ".join(dict.fromkeys(filter(None, (result.get("protocol") for result in results)))),
    )


def text_table(summaries: Sequence[RecipeSummary]) -> str:
    """A table for the terminal.

    >>> one = RecipeSummary("resnet18", 3, 11173962, 600.0, {"accuracy": (0.9412, 0.0011)})
    >>> print(text_table([one]))
    recipe    runs  parameters  minutes         accuracy
    resnet18     3  11,173,962     10.0  0.9412 ± 0.0011
    """
    return "\n".join([*aligned(result_rows(summaries)), *protocols(summaries)])


def protocols(summaries: Sequence[RecipeSummary]) -> list[str]:
    """The ways in which the metrics were measured, each once."""
    return [f"measured by {told}" for told in dict.fromkeys(summary.protocol for summary in summaries) if told]


def curve_drawing(groups: Groups, metric: str, split: str = "validation") -> str:
    """A metric during training, as SVG: of each recipe the mean over its seeds, and a band of one deviation."""
    return drawing_svg(_curves(groups, metric, split))


def curve_figure(groups: Groups, metric: str, split: str = "validation") -> str:
    """The same with its caption, for a page."""
    caption = "Mean over the seeds; the band is one standard deviation to each side."
    return figure_svg(_curves(groups, metric, split), caption, alt=f"{split} {metric.replace('_', ' ')}")


def write_report(groups: Groups, path: str | Path, *, title: str = "Training runs") -> None:
    """Write one HTML file with everything in it: table, curves, recipes and environments."""
    page = Page(title, "What was measured, how it went, and all that is needed to repeat it.")
    finished = [summarize(name, runs) for name, runs in groups.items() if any(run.finished for run in runs)]
    if finished:
        header, *rows = result_rows(finished)
        note = "Test split, last epoch; mean and standard deviation over the runs."
        page.section("Result", table(header, rows), paragraph(note), *map(paragraph, protocols(finished)))
    for split, metric in curves(groups):
        page.section(f"{split} {metric.replace('_', ' ')}".capitalize(), curve_figure(groups, metric, split))
    for name, runs in groups.items():
        files = [file.read_text(encoding="utf-8") for file in (runs[0].recipe_file, runs[0].environment_file)]
        page.section(
            name,
            *(paragraph(_state(run)) for run in runs),
            *(picture for run in runs for picture in _pictures(run)),
            "<details><summary>Recipe and environment</summary>",
            *map(code, files),
            "</details>",
        )
    write_bytes(path, page.render().encode())


def _pictures(run: RunFolder) -> list[str]:
    """The newest samples of a generator, if the run is of one."""
    return [
        picture_html(path, f"{run.path}: samples at step {int(path.stem.rpartition('-')[2])}, always of the same noise")
        for path in run.pictures("samples")[-1:]
    ]


def result_rows(summaries: Sequence[RecipeSummary]) -> list[list[str]]:
    """The cells of a table, the header first."""
    names = list(dict.fromkeys(name for summary in summaries for name in summary.metrics))
    rows = [["recipe", "runs", "parameters", "minutes", *names]]
    for summary in summaries:
        cells = [_plus_minus(summary.metrics.get(name), summary.runs) for name in names]
        rows.append([summary.name, str(summary.runs), f"{summary.parameters:,}", f"{summary.seconds / 60:.1f}", *cells])
    return rows


def _plus_minus(value: tuple[float, float] | None, runs: int) -> str:
    if value is None:
        return "-"
    return f"{value[0]:.4f} ± {value[1]:.4f}" if runs > 1 else f"{value[0]:.4f}"


def curves(groups: Groups) -> list[tuple[str, str]]:
    """The metrics worth a figure: all of the validation, and the training loss."""
    rows = [row for runs in groups.values() for run in runs for row in run.metrics("validation")[:1]]
    names = dict.fromkeys(name for row in rows for name in row if name not in ("split", "step", "epoch"))
    trained = any(
        run.metrics("train") and "loss" in run.metrics("train")[0] for runs in groups.values() for run in runs
    )
    return [("validation", name) for name in names] + ([("train", "loss")] if trained else [])


def _curves(groups: Groups, metric: str, split: str) -> Any:
    figure, axes = new_figure(8, 4.5)
    for (name, runs), color in zip(groups.items(), cycle(COLORS)):
        found = [curve for curve in (_by_epoch(run, metric, split) for run in runs) if curve]
        if found:
            epochs = sorted(set.intersection(*map(set, found)))  # those that all runs have reached
            band(axes, epochs, [[curve[epoch] for epoch in epochs] for curve in found], label=name, color=color)
    tidy(axes, x="epoch", y=f"{split} {metric.replace('_', ' ')}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.lines:
        axes.legend(frameon=False)
    return figure


def _by_epoch(run: RunFolder, metric: str, split: str) -> dict[int, float]:
    """The last value of each epoch."""
    return {row["epoch"]: row[metric] for row in run.metrics(split) if metric in row}


def _deviation(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0


def _state(run: RunFolder) -> str:
    if run.finished:
        result = run.result()
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in result["test"].items())
        return f"{run.path}: finished in {result['seconds'] / 60:.1f} min; test {numbers}"
    rows = run.metrics()
    return f"{run.path}: not finished" + (f", step {rows[-1]['step']}" if rows else "")
