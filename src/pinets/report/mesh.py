"""The report on autoencoders of shapes: error against order, and shapes coloured by their errors, to be turned."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._files import write_bytes
from pinets.recipes.kinds.shapes import AutoencodingRecipe, Graph, Spiral
from pinets.recipes.registry import recipe_from_json
from pinets.recipes.shapes import load_shape_model
from pinets.report.figures import COLORS, drawing_png, figure_svg, new_figure, tidy
from pinets.report.mesh_views import draw_shapes, error_colors, turnable
from pinets.report.page import Page, paragraph
from pinets.report.page import table as html_table
from pinets.report.training import RecipeSummary, group_runs, summarize, text_table
from pinets.train.run import RunFolder

__all__ = ["error_colors", "order_figure", "write_mesh_report"]

Runs = Mapping[str, Sequence[RunFolder]]
_NAMES = {"plain": "Spiral", "ncp": "NCP", "ncp_skip": "NCP-Skip", "simple": "simple"}
_ACROSS = {  # models without an order, and how their lines look
    "PCA": ("PCA", (0, (1, 1))),
    "chebnet": ("COMA (ChebNet)", (0, (5, 2))),
    "feastnet": ("FeaStNet", (0, (3, 1, 1, 1))),
    "gat": ("GAT", (0, (1, 4))),
    "monet": ("MoNet", (0, (6, 2, 1, 2, 1, 2))),
}


def write_mesh_report(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    index: int = 0,
    png: str | Path | None = None,
) -> str:
    """Write the report on the runs in some folders, which are all of one set of shapes and one latent size.

    Args:
        paths: Run folders, or folders of them.
        out: The HTML file.
        data_dir: Where data sets are looked for.
        index: The test shape that is shown.
        png: A folder for the figures as PNG files.

    Returns:
        The table of results, as text.
    """
    groups = {name: [run for run in runs if run.finished] for name, runs in group_runs(paths).items()}
    groups = {name: runs for name, runs in groups.items() if runs}
    recipes = {name: recipe_from_json(runs[0].recipe()) for name, runs in groups.items()}
    shapes = {name: recipe for name, recipe in recipes.items() if isinstance(recipe, AutoencodingRecipe)}
    _require_one_task(shapes, paths)
    summaries = [summarize(name, groups[name]) for name in shapes]
    first = next(iter(shapes.values()))
    page = Page(
        f"Shapes: {first.data.name}, {first.latent} latent numbers",
        "How far reconstructed vertices are from where they should be, on test shapes.",
    )
    rows = [_row(summary) for summary in summaries]
    header = ["recipe", "runs", "parameters", "error, mm", "std", "median", "not finite"]
    note = (
        "Mean, standard deviation and median over all vertices of all test shapes; ± is the deviation over the runs. "
        "Vertices that are not finite are counted, and make the mean infinite."
    )
    page.section("Result", html_table(header, rows), paragraph(note))
    figure = order_figure(shapes, groups)
    caption = "Mean error against the order of each layer's polynomial; dots are single runs."
    page.section("Error against order", figure_svg(figure, caption, alt="error against order"))
    chosen = _by_order(shapes, groups)
    if chosen:
        _add_shapes(page, chosen, data_dir, index, png)
    if png is not None:
        write_bytes(Path(png) / "error-against-order.png", drawing_png(figure, dpi=150))
    write_bytes(out, page.render().encode())
    return text_table(summaries)


def order_figure(recipes: Mapping[str, AutoencodingRecipe], groups: Runs) -> Any:
    """The paper's figure of the error of every model against its order; models without an order are lines across."""
    figure, axes = new_figure(8, 5)
    curves: dict[tuple[str, str], dict[int, list[float]]] = {}
    across: dict[str, list[float]] = {}
    for name, recipe in recipes.items():
        errors = [run.result()["test"]["error_mm"] for run in groups[name]]
        if isinstance(recipe.model, Spiral):
            curves.setdefault((recipe.model.layer, recipe.model.activation), {})[recipe.model.order] = errors
        else:
            across[recipe.model.operator if isinstance(recipe.model, Graph) else "PCA"] = errors
    for number, layer in enumerate(("ncp", "ncp_skip", "simple", "plain")):
        for activation, style in (("none", "-"), ("elu", "--")):
            curve = dict(curves.get((layer, activation), {}))
            if layer != "plain" and curve:
                curve |= curves.get(("plain", activation), {})  # order 1 of all of them
            if not curve:
                continue
            label = f"{_NAMES[layer]}, {'no activation' if activation == 'none' else 'ELU'}"
            look = {"color": COLORS[number], "linestyle": style, "marker": "o", "label": label}
            axes.plot(sorted(curve), [statistics.fmean(curve[order]) for order in sorted(curve)], **look)
            for order, values in curve.items():
                axes.scatter([order] * len(values), values, color=COLORS[number], s=9, alpha=0.5)
    for name, errors in across.items():
        label, dashes = _ACROSS[name]
        axes.axhline(statistics.fmean(errors), color="#5b6170", linestyle=dashes, label=label)
    tidy(axes, x="order", y="error, mm")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _add_shapes(
    page: Page,
    chosen: Mapping[int, tuple[str, RunFolder]],
    data_dir: str | Path | None,
    index: int,
    png: str | Path | None,
) -> None:
    """As in the paper's last figure: a test shape, and what each order makes of it, coloured by the error."""
    shapes: dict[str, Tensor] = {}
    errors: dict[str, Tensor] = {}
    faces = torch.empty(0)
    for order, (_, run) in chosen.items():
        model = load_shape_model(run.path, data_dir=data_dir)
        test = model.splits.test.shapes
        if not 0 <= index < len(test):
            raise ValueError(f"there is no test shape {index}; they are numbered from 0 to {len(test) - 1}")
        faces = model.template.faces
        shapes.setdefault("true", test[index])
        name = f"order {order}"
        shapes[name] = model.reconstruct(test[index : index + 1])[0]
        errors[name] = model.errors(test[index : index + 1])[0]
    made = "; ".join(f"order {order} is {name}" for order, (name, _) in chosen.items())
    caption = f"From left to right: test shape {index}, and what each order makes of it ({made}). Drag to turn."
    page.section("A shape and its errors", turnable(shapes, faces, errors), paragraph(caption))
    if png is not None:
        drawn = draw_shapes(shapes, faces, errors)
        write_bytes(Path(png) / "shape-errors.png", drawing_png(drawn, dpi=150))


def _by_order(recipes: Mapping[str, AutoencodingRecipe], groups: Runs) -> dict[int, tuple[str, RunFolder]]:
    """A recipe and a run of it for each order: NCP without activations where there is one, else what there is."""
    found: dict[int, tuple[tuple[bool, bool], str]] = {}
    for name, recipe in recipes.items():
        if isinstance(recipe.model, Spiral):
            entry = ((recipe.model.layer not in ("ncp", "plain"), recipe.model.activation != "none"), name)
            found[recipe.model.order] = min(found.get(recipe.model.order, entry), entry)
    return {order: (found[order][1], groups[found[order][1]][0]) for order in sorted(found)}


def _row(summary: RecipeSummary) -> list[str]:
    error, deviation = summary.metrics["error_mm"]
    return [
        summary.name,
        str(summary.runs),
        f"{summary.parameters:,}",
        f"{error:.4g} ± {deviation:.2g}" if summary.runs > 1 else f"{error:.4g}",
        *(f"{summary.metrics[name][0]:.4g}" for name in ("deviation_mm", "median_mm")),
        f"{summary.metrics['non_finite'][0]:.0f}",
    ]


def _require_one_task(recipes: Mapping[str, AutoencodingRecipe], paths: Sequence[str | Path]) -> None:
    if not recipes:
        raise ValueError(f"there is no finished run of an autoencoder of shapes in {', '.join(map(str, paths))}")
    tasks = {(recipe.data, recipe.latent) for recipe in recipes.values()}
    if len(tasks) > 1:
        told = "; ".join(f"{data.name} with {latent} latent numbers" for data, latent in tasks)
        raise ValueError(f"the runs must be of one set of shapes and one latent size to be compared, got {told}")
