"""Train a recipe, evaluate a run, and train several recipes to compare them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets.engine.compiling import compile_networks
from pinets.engine.loop import fit, make_accelerator, restore_networks
from pinets.engine.model import without_first_weights
from pinets.engine.recipe import Recipe, recipe_from_json
from pinets.engine.run import RunFolder, changed_keys, describe_data, differ
from pinets.engine.task import Split
from pinets.engine.values import RecipeError, to_json

__all__ = ["compare", "evaluate", "finished_runs", "is_main_process", "require_comparable", "run_folder", "train"]

# the keys in which recipes that are compared must agree, where they have them
_BUDGET = (
    *("scale", "data", "epochs", "batch", "precision"),
    *("steps_per_epoch", "discriminator_steps", "generator_batch", "metric"),
)


def run_folder(recipe: Recipe, out: str | Path = "runs") -> RunFolder:
    """The run folder of a recipe: ``out/NAME/seed-0``, or ``out/NAME-small/seed-0``."""
    return RunFolder(Path(out) / recipe.title / f"seed-{recipe.seed}")


def train(
    recipe: Recipe, out: str | Path = "runs", *, data_dir: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Train a recipe to the end and return its result, which is also in the run folder.

    Args:
        recipe: From :func:`pinets.tasks.get_recipe`, or your own.
        out: The folder of all run folders.
        data_dir: The data folder.
        resume: Continue a run that exists; a finished one returns its result. Without it, a run that exists is an
            error, as is one of another recipe. A run without a checkpoint has nothing to lose: it starts anew.
    """
    accelerator = make_accelerator(recipe.precision, recipe.accumulate)
    main, run = accelerator.is_main_process, run_folder(recipe, out)
    if run.has_progress and resume:
        _require_same_recipe(run, recipe)
    elif main:
        run.require_new()
    accelerator.wait_for_everyone()
    if run.finished:
        return run.result()
    if recipe.precision == "fp16" and accelerator.device.type == "cpu" and not run.has_progress:
        raise ValueError("precision is fp16, which needs a GPU: a CPU would compute in float32; use bf16 or no")
    if run.has_progress:
        data_dir = run.data_folder(data_dir)
        for key, before, now in run.changed_environment(accelerator.num_processes, to_json(recipe)):
            note = f"{run.path}: {key} was {before} and is now {now}; the run goes on, but not to the same last bits"
            accelerator.print(note, file=sys.stderr)
    data = recipe.load(data_dir)  # before anything is written: data may be missing, or not fit the network
    task = recipe.build(data, accelerator)
    plan = recipe.prepare_training(task, data, accelerator)
    # predictions and exports need the preprocessing long after the data may be gone
    inputs = to_json(data.describe()) if hasattr(data, "describe") else None
    described = describe_data(data.train, data_dir, inputs)
    with run.lock() if main else nullcontext():
        if main:  # again: another process may have trained here since the checks above
            if not resume:
                run.require_new()
            if run.has_progress:
                _require_same_recipe(run, recipe)
                run.require_same_data(described)
            else:
                run.start(to_json(recipe), accelerator.num_processes, described)
        accelerator.wait_for_everyone()
        if run.finished:
            return run.result()
        if recipe.compile:
            compile_networks(task, accelerator)
        about = {"recipe": recipe.name, "scale": recipe.scale, "seed": recipe.seed}
        result = fit(task, plan, run, accelerator, title=f"{recipe.title}, seed {recipe.seed}", about=about)
    accelerator.free_memory()
    return result


def is_main_process() -> bool:
    """Whether this is the process that prints and writes."""
    return require("accelerate", extra="train").PartialState().is_main_process


def evaluate(
    path: str | Path, split: Split = "test", *, data_dir: str | Path | None = None, compile: bool = False
) -> dict[str, float]:
    """The metrics of a run's newest weights on a split.

    Args:
        path: The run folder.
        split: Which part of the data.
        data_dir: The data folder; by default the one of training.
        compile: Compile the networks first.
    """
    run = RunFolder(path)
    recipe = without_first_weights(recipe_from_json(run.recipe()))
    checkpoint = run.newest_checkpoint()
    data = recipe.load(run.data_folder(data_dir))
    run.require_same_kind(data.train)
    accelerator = make_accelerator(recipe.precision)
    task = recipe.build(data, accelerator)
    restore_networks(task, checkpoint, accelerator)
    if compile:
        compile_networks(task, accelerator)
    return task.evaluate(split)


def compare(
    recipes: Sequence[Recipe],
    seeds: int,
    out: str | Path = "runs",
    *,
    data_dir: str | Path | None = None,
    records: str | Path | None = None,
) -> list[list[RunFolder]]:
    """Train recipes on the same data with the same budget, each with several seeds.

    Finished runs are not run again; interrupted ones continue where they stopped.

    Args:
        recipes: What to train.
        seeds: Runs of each; their seeds are 0, 1, ...
        out: The folder of all run folders.
        data_dir: The data folder.
        records: A folder of records of finished runs (:meth:`RunFolder.write_record`). These are not run again
            either, and new runs are recorded there.

    Returns:
        The run folders: for each recipe, one for each seed; with ``records``, also those of further seeds.
    """
    if len(recipes) < 2:
        raise ValueError(f"there must be at least two recipes to compare, got {len(recipes)}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    for recipe in recipes:
        if recipe.seed != 0:
            raise ValueError(f"the seeds to compare are 0 to {seeds - 1}, and {recipe.name} has seed={recipe.seed}")
    for first, second in combinations(recipes, 2):
        require_comparable(first, second)
    for seed in range(seeds):  # all recipes of a seed first: stopped early, the finished ones can be compared
        for recipe in recipes:
            one = replace(recipe, seed=seed)
            if _finished(one, out, records) is None:
                train(one, out, data_dir=data_dir, resume=True)
            _record(one, out, records)
    most = seeds if records is None else None
    groups = [finished_runs(recipe, out, records)[:most] for recipe in recipes]
    _tell_other_data([run for group in groups for run in group])
    return groups


def _tell_other_data(runs: Sequence[RunFolder]) -> None:
    """Warn of runs that were trained on other samples than the first: the data of one name may have changed."""
    known = [run for run in runs if run.checksums()]
    if other := [run for run in known if differ(known[0].checksums(), run.checksums())]:
        warnings.warn(
            f"{other[0].path} was trained on other samples than {known[0].path}, and should not be compared with it",
            stacklevel=3,
        )


def finished_runs(recipe: Recipe, out: str | Path = "runs", records: str | Path | None = None) -> list[RunFolder]:
    """The finished runs of a recipe with the seeds 0, 1, ..., in ``out`` or else recorded; all of them are recorded."""
    found: list[RunFolder] = []
    while run := _finished(one := replace(recipe, seed=len(found)), out, records):
        _record(one, out, records)
        found.append(run)
    return found


def _finished(recipe: Recipe, out: str | Path, records: str | Path | None) -> RunFolder | None:
    """A finished run: where it was trained, with its weights, or else its record."""
    for folder in (out, records):
        if folder is not None and (run := run_folder(recipe, folder)).finished:
            _require_same_recipe(run, recipe)
            return run
    return None


def _record(recipe: Recipe, out: str | Path, records: str | Path | None) -> None:
    """Record a run that is finished in ``out``."""
    if records is not None and is_main_process():
        record = run_folder(recipe, records)
        if record.finished:
            _require_same_recipe(record, recipe)  # else the page would show other runs than are recorded beside it
        else:
            run_folder(recipe, out).write_record(record.path)


def require_comparable(first: Recipe, second: Recipe) -> None:
    """Two recipes are comparable if they see the same data for the same time and are measured alike."""
    one, two = ({key: value for key, value in to_json(recipe).items() if key in _BUDGET} for recipe in (first, second))
    differences = changed_keys(one, two)
    if differences or first.title == second.title:
        same = "both have this name, and so the same run folders"
        told = "; ".join(f"{key} is {a!r} and {b!r}" for key, a, b in differences) or same
        raise ValueError(
            f"{first.name} and {second.name} cannot be compared, they must see the same data for the same time and be "
            f"measured alike: {told}"
        )


def _require_same_recipe(run: RunFolder, recipe: Recipe) -> None:
    """Keys that recipes have had only since the run was started count with their defaults, which change nothing."""
    try:
        before = recipe_from_json(run.recipe())
    except RecipeError as error:
        raise RecipeError(f"{run.recipe_file}: {error}") from error
    run.require_same_recipe(to_json(recipe), before=to_json(before))
