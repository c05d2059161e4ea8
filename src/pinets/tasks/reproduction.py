"""Make a table or figure of the paper anew: train what it compares, and write one page of Markdown about it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pinets._files import write_bytes
from pinets.engine.recipe import Recipe, Scale, get_recipe, recipe_notes
from pinets.engine.run import RunFolder, changed_keys
from pinets.engine.running import compare, finished_runs, is_main_process
from pinets.engine.values import RecipeError, to_json
from pinets.report import Groups, curve_drawing, curves, markdown_table, metric_title, protocols, result_rows, summarize
from pinets.tasks.experiments import EXPERIMENTS, get_experiment
from pinets.tasks.faces import light_table, roc_drawing, score_lights, score_test_pairs
from pinets.tasks.generation import GenerationRecipe, real_images, sample
from pinets.tasks.generation.image_files import side_by_side
from pinets.tasks.meshes import write_mesh_report

__all__ = ["Reproduction", "experiments_at", "papers_figure", "reproduce", "scale_changes"]

_SAMPLES = 36
_QUIET = ("name", "scale", "checkpoint_every", "log_every", "compile")  # the results do not depend on these


@dataclass(frozen=True)
class Reproduction:
    """A finished experiment: the runs of each network, and the page about them."""

    groups: Groups
    page: Path


def experiments_at(scale: Scale) -> list[str]:
    """The experiments whose recipes all have a scale."""

    def has_scale(name: str) -> bool:
        try:
            return bool([get_recipe(recipe, scale) for recipe in EXPERIMENTS[name].names(scale)])
        except RecipeError:
            return False

    return [name for name in EXPERIMENTS if has_scale(name)]


def reproduce(
    name: str,
    scale: Scale = "full",
    *,
    changes: Iterable[str] = (),
    seeds: int | None = None,
    out: str | Path = "runs",
    pages: str | Path | None = None,
    data_dir: str | Path | None = None,
    train: bool = True,
) -> Reproduction | None:
    """Train what an experiment compares, and write one page of Markdown about it. Finished runs are not run again.

    The page is ``NAME.md``, or ``NAME-small.md``, with its pictures beside it.

    A folder of pages also keeps results and curves of its runs, in ``runs``: these count as finished on any machine.
    Pictures that need weights are drawn where the weights are, and otherwise stay as they were.

    Args:
        name: One of :data:`~pinets.tasks.experiments.EXPERIMENTS`.
        scale: The scale of its recipes.
        changes: Values to set in all of them, such as ``"latent=8"``.
        seeds: Runs of each recipe; as many as the experiment says if left out.
        out: Where run folders are kept.
        pages: The folder of the page and of the records of its runs; if left out, the page goes to ``out``.
        data_dir: Where data sets are.
        train: Whether to train what is not finished; otherwise the page says what is missing.

    Returns:
        The runs and the page; None on all processes but the main one.
    """
    experiment, changes = get_experiment(name), [*changes]
    names = experiment.names(scale)
    recipes = {recipe: get_recipe(recipe, scale, changes) for recipe in names}
    records = None if pages is None else Path(pages) / "runs"
    if train:
        seeds = seeds or experiment.runs(scale)
        folders = compare([*recipes.values()], seeds, out, data_dir=data_dir, records=records)
    else:
        folders = [finished_runs(recipe, out, records)[:seeds] for recipe in recipes.values()]
        seeds = seeds or max(map(len, folders))
    if not is_main_process():
        return None
    groups = {network: runs for network, runs in zip(names.values(), folders, strict=True) if runs}
    if not groups:
        places = " or ".join(str(place) for place in (out, records) if place is not None)
        raise ValueError(f"no run of {name} at {scale} scale is finished in {places}")
    missing = [network for network in names.values() if network not in groups]
    recipes = {recipe: made for recipe, made in recipes.items() if names[recipe] in groups}
    folder = Path(pages or out)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["pinets", "reproduce", name, "--scale", scale, "--seeds", str(seeds)]
    command = shlex.join([*words, *(word for change in changes for word in ("--set", change))])
    title = experiment.title if scale == "full" else f"{experiment.title}, {scale} scale"
    page = _Page(title, command, recipes, groups, scale_changes([*recipes][-1], scale, changes), missing)
    draw = {"samples": _draw_samples, "shapes": _draw_shapes, "faces": _draw_faces}
    stem = name if scale == "full" else f"{name}-{scale}"
    if experiment.picture:
        draw[experiment.picture](page, stem, folder, Path(out), data_dir)
    _draw_curves(page, stem, folder)
    file = folder / f"{stem}.md"
    write_bytes(file, page.render().encode())
    return Reproduction(groups, file)


def papers_figure(recipe: str) -> str:
    """The paper's result for a recipe, from the recipe's notes; empty for a variant, which the paper does not have.

    >>> papers_figure("speech_resnet34")
    'accuracy 0.951 ± 0.002, 21.3 M parameters'
    """
    if ":" in recipe:
        return ""
    found = re.search(r"^Paper: (.*?)\.?$", recipe_notes(recipe), re.MULTILINE)
    return found[1].replace("+-", "±") if found else ""


def scale_changes(name: str, scale: Scale, changes: Iterable[str] = ()) -> list[str]:
    """The values in which a recipe with changes differs from full scale, a line for each."""
    if scale == "full":
        return []
    old, new = to_json(get_recipe(name)), to_json(get_recipe(name, scale, changes))
    changed = [change for change in changed_keys(old, new) if change[0] not in _QUIET]
    return [f"`{key.replace('.options.', '.')}`: {_shown(before)} → {_shown(now)}" for key, before, now in changed]


@dataclass
class _Page:
    """A page in the making."""

    title: str
    command: str
    recipes: Mapping[str, Recipe]  # by name, which may be that of a variant
    groups: Groups
    scale_changes: Sequence[str]  # of the last recipe
    missing: Sequence[str]  # networks that have not been trained yet
    pictures: dict[str, str] = field(default_factory=dict)  # files beside the page, and their captions
    tables: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)  # by what they show

    @property
    def several(self) -> bool:
        """Whether there is more than one run of a recipe."""
        return any(len(runs) > 1 for runs in self.groups.values())

    @property
    def has_weights(self) -> bool:
        """Whether the first run of every recipe has its weights here, not only its record."""
        return all(runs[0].has_weights for runs in self.groups.values())

    def add_picture(self, folder: Path, file: str, caption: str) -> None:
        """Show a file beside the page if there is one: drawn now, or where the weights were."""
        if (folder / file).is_file():
            self.pictures[file] = caption

    def render(self) -> str:
        summaries = [summarize(name, runs) for name, runs in self.groups.items()]
        (_, *header), *rows = result_rows(summaries)
        header.insert(0, "network")
        papers = [papers_figure(name) for name in self.recipes]
        numbered = [bool(re.search(r"\d", figure)) for figure in papers]
        if any(numbered):
            header.append("paper, full scale")
            for row, figure, has_number in zip(rows, papers, numbered, strict=True):
                row.append(figure if has_number else "")
        lines = [f"# {self.title}", "", f"    {self.command}", "", _where(self.groups), ""]
        lines += [*markdown_table([header, *rows]), "", self._how_measured(), ""]
        if self.missing:
            lines += [f"Not trained yet: {'; '.join(self.missing)}.", ""]
        lines += [f"{told[0].upper()}{told[1:]}.\n" for told in protocols(summaries)]
        for file, caption in self.pictures.items():
            lines += [f"![{caption}]({file})", "", f"*{caption}*", ""]
        for caption, content in self.tables.items():
            lines += [caption, "", *markdown_table(content), ""]
        if self.scale_changes:
            name, recipe = [*self.recipes.items()][-1]
            lines += [f"At {recipe.scale} scale `{name}` differs from full scale (`none` is the default) in:", ""]
            lines += [*(f"- {change}" for change in self.scale_changes), ""]
        return "\n".join(lines).rstrip() + "\n"

    def _how_measured(self) -> str:
        generated = isinstance(next(iter(self.recipes.values())), GenerationRecipe)
        start = "After the last epoch" if generated else "Test split, after the last epoch"
        if self.several:
            return f"{start}; mean ± standard deviation over the runs (seeds from 0 on)."
        return f"{start}; one run of each (seed 0), so without deviation."


def _draw_samples(page: _Page, stem: str, folder: Path, out: Path, data_dir: str | Path | None) -> None:
    """Real images, and those of each generator's first run."""
    first = {network: runs[0].path for network, runs in page.groups.items()}
    file = f"{stem}-samples.png"
    if page.has_weights:
        panels = {"real": real_images(next(iter(first.values())), _SAMPLES, data_dir=data_dir)}
        panels |= {network: sample(path, _SAMPLES) for network, path in first.items()}
        side_by_side(panels, folder / file)
    page.add_picture(folder, file, "Images of the test set, and samples of seed 0: the first that come, none picked.")


def _draw_shapes(page: _Page, stem: str, folder: Path, out: Path, data_dir: str | Path | None) -> None:
    """Error against order, and a test shape coloured by the errors of each order; shapes to turn, beside the runs."""
    paths = [run.path for runs in page.groups.values() for run in runs]
    write_mesh_report(paths, out / f"{stem}.html", data_dir=data_dir, png=folder / stem)
    page.add_picture(folder, f"{stem}/error-against-order.png", "Mean error against the order of the layers.")
    page.add_picture(folder, f"{stem}/shape-errors.png", "The first test shape, and what NCP makes of it.")
    page.add_picture(folder, f"{stem}/motion.gif", "A test sequence, and what NCP makes of it.")


def _draw_faces(page: _Page, stem: str, folder: Path, out: Path, data_dir: str | Path | None) -> None:
    """ROC curves on every set of pairs the recipes test on, and recognition by illumination where Yale B is there.

    Both need the weights of all runs.
    """
    if not all(run.has_weights for runs in page.groups.values() for run in runs):
        return
    for data, results in score_test_pairs(page.groups, data_dir).items():
        file = f"{stem}-roc-{data}.svg"
        write_bytes(folder / file, roc_drawing(results).encode())
        page.pictures[file] = f"ROC on the pairs of {data}, mirror images added; the band is one standard deviation."
    lights = score_lights(page.groups, data_dir)
    if lights:
        gallery = next(iter(lights.values()))[0].settings["gallery"]
        page.tables[f"Identification on Extended Yale B by illumination (gallery: {gallery}):"] = light_table(lights)


def _draw_curves(page: _Page, stem: str, folder: Path) -> None:
    """The first metric of the validation, which is the one that matters."""
    shown = [name for name, splits in curves(page.groups).items() if "validation" in splits and name != "loss"]
    for metric in shown[:1]:
        file = f"{stem}-{metric}.svg"
        write_bytes(folder / file, curve_drawing(page.groups, metric).encode())
        band = "; the band is one standard deviation" if page.several else ""
        page.pictures[file] = f"Validation {metric_title(metric)} during training{band}."


def _where(groups: Groups) -> str:
    """The machine of the runs, as their folders name it."""
    first: RunFolder = next(iter(groups.values()))[0]
    facts = first.environment()
    if missing := [key for key in ("device", "threads", "processes", "torch") if key not in facts]:
        raise ValueError(f"{first.environment_file} is damaged: it has no {', '.join(missing)}")
    threads = f"{facts['threads']} thread" + ("s" if facts["threads"] != 1 else "")
    return f"On {facts['device']} ({threads}, {facts['processes']} process per run), torch {facts['torch']}."


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
