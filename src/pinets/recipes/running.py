"""Running recipes: train, evaluate again, and train several to compare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinets._extras import require
from pinets.recipes.kinds.model import without_first_weights
from pinets.recipes.kinds.recipe import Recipe
from pinets.recipes.provenance import data_folder, describe_data, require_same_classes, require_same_data
from pinets.recipes.registry import recipe_from_json
from pinets.recipes.values import to_json
from pinets.train.files import write_json
from pinets.train.loop import fit, make_accelerator, restore_networks
from pinets.train.run import RunFolder, changed_keys
from pinets.train.task import Split

__all__ = ["compare", "evaluate", "is_main_process", "require_comparable", "run_folder", "train"]

# the keys in which recipes that are compared must agree, those of them that they have
_BUDGET = (
    *("scale", "data", "epochs", "batch", "precision"),
    *("steps_per_epoch", "discriminator_steps", "generator_batch", "metric"),
)


def run_folder(recipe: Recipe, out: str | Path = "runs") -> RunFolder:
    """Where the run of a recipe is kept: ``out/NAME/seed-0``, or ``out/NAME-small/seed-0``."""
    return RunFolder(Path(out) / recipe.title / f"seed-{recipe.seed}")


def train(
    recipe: Recipe, out: str | Path = "runs", *, data_dir: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Train a recipe to the end and return its result, which is also in the run folder.

    Args:
        recipe: From :func:`pinets.recipes.get_recipe`, or your own.
        out: Where run folders are kept.
        data_dir: Where data sets are looked for.
        resume: Whether to go on with a run that exists; a finished one gives its result. A run that exists is an error
            otherwise, and so is one of another recipe. One without a checkpoint has nothing to lose: it starts anew.
    """
    accelerator = make_accelerator(recipe.precision, recipe.accumulate)
    run, values = run_folder(recipe, out), to_json(recipe)
    main = accelerator.is_main_process
    if run.has_progress and resume:
        # keys that recipes have had since the run was started have their defaults, which change nothing
        run.require_same_recipe(values, before=to_json(recipe_from_json(run.recipe())))
        changes = [] if run.finished else run.changed_environment(accelerator.num_processes)
        for key, before, now in changes:
            note = f"{run.path}: {key} was {before} and is now {now}; the run goes on, but not to the same last bits"
            accelerator.print(note, file=sys.stderr)
    elif main:
        run.require_new()
    accelerator.wait_for_everyone()
    if run.finished:
        return run.result()
    if run.has_progress:
        data_dir = data_folder(run, data_dir)
    task, plan = recipe.prepare(data_dir, accelerator)  # before anything is written: data may be missing
    data = describe_data(task, data_dir)
    if run.has_progress:
        require_same_data(run, data)
    with run.lock() if main else nullcontext():
        if main and not run.has_progress:  # there is none, or one that died before it had anything to lose
            run.start(values, accelerator.num_processes, data)
        accelerator.wait_for_everyone()
        title = f"{recipe.title}, seed {recipe.seed}"
        result = {
            "recipe": recipe.name,
            "scale": recipe.scale,
            "seed": recipe.seed,
            **fit(task, plan, run, accelerator, title=title),
        }
        if main:
            write_json(run.result_file, result)
        accelerator.wait_for_everyone()
    accelerator.free_memory()
    return result


def is_main_process() -> bool:
    """Whether this process is the one of all that prints and writes."""
    return require("accelerate", extra="train").PartialState().is_main_process


def evaluate(path: str | Path, split: Split = "test", *, data_dir: str | Path | None = None) -> dict[str, float]:
    """The metrics of a run's newest weights on a split.

    Args:
        path: The run folder.
        split: Which part of the data.
        data_dir: Where data sets are looked for; where they were in training if left out.
    """
    run = RunFolder(path)
    recipe = recipe_from_json(run.recipe())
    accelerator = make_accelerator(recipe.precision)
    checkpoint = run.newest_checkpoint()
    folder = data_folder(run, data_dir)
    task, _ = replace(without_first_weights(recipe), accumulate=1).prepare(folder, accelerator)
    require_same_classes(run, describe_data(task, folder).get("classes"))
    restore_networks(task, checkpoint, accelerator)
    return task.evaluate(split)


def compare(
    recipes: Sequence[Recipe], seeds: int, out: str | Path = "runs", *, data_dir: str | Path | None = None
) -> list[list[RunFolder]]:
    """Train recipes on the same data with the same budget, each with several seeds.

    Runs that are finished are not run again, those that were interrupted go on where they stopped.

    Returns:
        The run folders, for each recipe one for each seed.
    """
    if len(recipes) < 2:
        raise ValueError(f"there must be at least two recipes to compare, got {len(recipes)}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    for recipe in recipes:
        if recipe.seed != 0:
            raise ValueError(f"the seeds to compare are 0 to {seeds - 1}, and {recipe.name} has seed={recipe.seed}")
    for other in recipes[1:]:
        require_comparable(recipes[0], other)
    for seed in range(seeds):  # all recipes of a seed first: stopped early, what there is can be compared
        for recipe in recipes:
            train(replace(recipe, seed=seed), out, data_dir=data_dir, resume=True)
    return [[run_folder(replace(recipe, seed=seed), out) for seed in range(seeds)] for recipe in recipes]


def require_comparable(first: Recipe, second: Recipe) -> None:
    """Two recipes are comparable if they see the same data for the same time and are measured alike."""
    one, two = ({key: value for key, value in to_json(recipe).items() if key in _BUDGET} for recipe in (first, second))
    differences = changed_keys(one, two)
    if differences or first.title == second.title:
        told = "; ".join(f"{key} is {a!r} and {b!r}" for key, a, b in differences) or "they are the same recipe"
        raise ValueError(
            f"{first.name} and {second.name} cannot be compared, they must see the same data for the same time and be "
            f"measured alike: {told}"
        )
