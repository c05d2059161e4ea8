"""The runs of a folder: grouped by recipe, and summarised over the seeds."""

from __future__ import annotations

import math
import reprlib
import statistics
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinets.engine.recipe import recipe_from_json
from pinets.engine.run import RunFolder, changed_keys
from pinets.engine.values import RecipeError, to_json

__all__ = ["Groups", "RecipeSummary", "deviation", "group_runs", "summarize"]

Groups = Mapping[str, Sequence[RunFolder]]  # the runs of each recipe


@dataclass(frozen=True)
class RecipeSummary:
    """The results of the finished runs of one recipe.

    Args:
        name: Title of the recipe.
        runs: How many are finished.
        parameters: Number of parameters, without those of a discriminator.
        seconds: Mean time of a run.
        metrics: Mean and standard deviation over the seeds, for the last epoch on the test split.
        protocol: How the metrics were measured, where their names do not say it.
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
            for file in (run.recipe_file, run.environment_file):  # a report shows both
                if file.is_symlink():  # in a stranger's run, it may point to any file of the reader
                    raise ValueError(f"{file} is a symbolic link, which a report does not follow")
            recipe = _recipe_without_seed(run)
            run.environment()
            run.metrics()
            if run.finished:
                run.result()
            readable.append((run, recipe))
        except (ValueError, OSError) as error:
            if len(runs) == 1:
                raise
            warnings.warn(f"the run in {run.path} is left out: {error}", stacklevel=3)
    return readable


def _recipe_without_seed(run: RunFolder) -> dict[str, Any]:
    """The recipe of a run without its seed, with defaults for keys that are newer than the run."""
    recipe = _require_keys(run.recipe_file, run.recipe(), "name", "scale")
    for key in ("name", "scale"):
        if not isinstance(recipe[key], str):
            raise ValueError(f"{run.recipe_file}: {key} must be a text, got {reprlib.repr(recipe[key])}")
    with suppress(RecipeError):  # a recipe of another version or of another package: compare it as it is
        recipe = to_json(recipe_from_json(recipe))
    return {key: value for key, value in recipe.items() if key != "seed"}


def _require_keys(file: Path, content: Any, *keys: str) -> dict[str, Any]:
    missing = [key for key in keys if key not in content] if isinstance(content, dict) else keys
    if missing:
        raise ValueError(f"{file} is damaged: it has no {', '.join(missing)}")
    return content  # type: ignore[no-any-return]


def _differences(recipes: Sequence[dict[str, Any]]) -> list[str]:
    """For each of several recipes of one name, the values of the keys in which they differ.

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
    """A value of a recipe as it is set on a command line, a part by its kind; empty where there is no such key."""
    value: Any = recipe
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ""
        value = value[part]
    if isinstance(value, Mapping):
        value = value.get("kind", "...")
    return f"{key.replace('.options.', '.').removesuffix('.kind')}={'none' if value is None else value}"


def summarize(name: str, runs: Sequence[RunFolder]) -> RecipeSummary:
    """Mean and deviation over the finished runs of one recipe."""
    results = [run.result() for run in runs if run.finished]
    if not results:
        raise ValueError(f"no run of {name} is finished")
    # a metric that some run lacks has no mean over all runs
    shared = [key for key in results[0]["test"] if all(key in result["test"] for result in results)]
    values = {key: [result["test"][key] for result in results] for key in shared}
    return RecipeSummary(
        name=name,
        runs=len(results),
        parameters=sum(count for name, count in results[0]["parameters"].items() if name != "discriminator"),
        seconds=statistics.fmean(result["seconds"] for result in results),
        metrics={key: (statistics.fmean(found), deviation(found)) for key, found in values.items()},
        protocol=" and ".join(dict.fromkeys(filter(None, (result.get("protocol") for result in results)))),
    )


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single value, or where a value is not finite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0
