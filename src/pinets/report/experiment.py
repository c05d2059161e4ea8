"""One experiment as a page of Markdown: the command, the paper's figures beside ours, what small scale changes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinets._files import write_bytes
from pinets.recipes import GenerationRecipe, Recipe, get_recipe, recipe_notes, to_json
from pinets.report.training import Groups, curve_drawing, curves, protocols, result_rows, summarize
from pinets.train.run import RunFolder, changed_keys

__all__ = ["experiment_page", "papers_figure", "small_scale_changes", "write_experiment"]

_QUIET = ("name", "scale", "checkpoint_every", "log_every")  # of no consequence for what comes out


def papers_figure(recipe: str) -> str:
    """What the paper reports for a recipe, from the recipe's own notes.

    >>> papers_figure("speech_resnet34")
    'accuracy 0.951 ± 0.002, 21.3 M parameters'
    """
    found = re.search(r"^Paper: (.*?)\.?$", recipe_notes(recipe), re.MULTILINE)
    return found[1].replace("+-", "±") if found else ""


def small_scale_changes(recipe: Recipe) -> list[str]:
    """What a recipe at small scale does otherwise than at full scale, a line for each value."""
    if recipe.scale == "full":
        return []
    old, new = to_json(get_recipe(recipe.name)), to_json(recipe)
    changed = [change for change in changed_keys(old, new) if change[0] not in _QUIET]
    return [f"`{key.replace('.options.', '.')}`: {_told(before)} → {_told(now)}" for key, before, now in changed]


def experiment_page(
    title: str,
    command: str,
    recipes: Sequence[Recipe],
    groups: Groups,
    pictures: Mapping[str, str] = {},
    tables: Mapping[str, Sequence[Sequence[str]]] = {},
) -> str:
    """The page; ``pictures`` are files beside it and their captions, ``tables`` further ones by what they show."""
    summaries = [summarize(name, runs) for name, runs in groups.items()]
    header, *rows = result_rows(summaries)
    header.append("paper, full scale")
    for row, recipe in zip(rows, recipes, strict=True):
        row.append(papers_figure(recipe.name))
    lines = [f"# {title}", "", f"    {command}", "", _where(groups), ""]
    lines += [*_table([header, *rows]), ""]
    measured = protocols(summaries)
    lines += [
        _what_is_told(groups, on_test=not isinstance(recipes[0], GenerationRecipe)),
        "",
        *(f"{told[0].upper()}{told[1:]}.\n" for told in measured),
    ]
    for file, caption in pictures.items():
        lines += [f"![{caption}]({file})", "", f"*{caption}*", ""]
    for caption, content in tables.items():
        lines += [caption, "", *_table(content), ""]
    changes = small_scale_changes(recipes[-1])
    if changes:
        lines += [f"Small scale, where `{recipes[-1].name}` differs from full scale (`none` is the default):", ""]
        lines += [*(f"- {change}" for change in changes), ""]
    return "\n".join(lines).rstrip() + "\n"


def write_experiment(
    name: str,
    title: str,
    command: str,
    recipes: Sequence[Recipe],
    groups: Groups,
    folder: str | Path,
    pictures: Mapping[str, str] = {},
    tables: Mapping[str, Sequence[Sequence[str]]] = {},
) -> Path:
    """Write ``NAME.md`` and its curves into a folder, where the given pictures already are."""
    folder, drawn = Path(folder), dict(pictures)
    shown = [metric for split, metric in curves(groups) if split == "validation" and metric != "loss"]
    for metric in shown[:1]:  # the first is the one that matters
        file = f"{name}-{metric}.svg"
        write_bytes(folder / file, curve_drawing(groups, metric).encode())
        band = "; the band is one standard deviation" if _are_several(groups) else ""
        drawn[file] = f"Validation {metric.replace('_', ' ')} during training{band}."
    page = folder / f"{name}.md"
    write_bytes(page, experiment_page(title, command, recipes, groups, drawn, tables).encode())
    return page


def _where(groups: Groups) -> str:
    """Where the runs were made, from what their folders say."""
    first: RunFolder = next(iter(groups.values()))[0]
    facts = json.loads(first.environment_file.read_text(encoding="utf-8"))
    threads = f"{facts['threads']} thread" + ("s" if facts["threads"] != 1 else "")
    return f"On {facts['device']} ({threads}, {facts['processes']} process per run), torch {facts['torch']}."


def _what_is_told(groups: Groups, *, on_test: bool) -> str:
    start = "Test split, after the last epoch" if on_test else "After the last epoch"
    if _are_several(groups):
        return f"{start}; mean ± standard deviation over the runs (seeds from 0 on)."
    return f"{start}; one run of each (seed 0), so without deviation."


def _are_several(groups: Groups) -> bool:
    return any(len(runs) > 1 for runs in groups.values())


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    header, *others = rows
    return [_row(header), _row(["---"] * len(header)), *map(_row, others)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _told(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
