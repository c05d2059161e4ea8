"""The report on autoencoders of shapes: error against order, and shapes coloured by their errors, to be turned."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from pinets._files import write_bytes
from pinets.algebra import certify
from pinets.data.splits import evenly_chosen
from pinets.engine.recipe import recipe_from_json
from pinets.engine.run import RunFolder
from pinets.engine.trained import TrainedRun
from pinets.report import (
    COLORS,
    Groups,
    Page,
    Section,
    deviation,
    drawing_png,
    figure_svg,
    group_runs,
    new_figure,
    paragraph,
    result_rows,
    summarize,
    text_table,
    tidy,
)
from pinets.report import table as html_table
from pinets.tasks.meshes.drawing import animate_shapes, draw_shapes, turnable
from pinets.tasks.meshes.recipe import AutoencodingRecipe, Graph, Spiral
from pinets.tasks.meshes.shape_model import load_shape_model

__all__ = ["order_figure", "run_sections", "write_mesh_report"]

_MOST_SHAPES = 200  # test shapes that are looked at, evenly chosen

_EVERY = 3  # the animation shows every third frame
_NAMES = {"plain": "Spiral", "ncp": "NCP", "ncp_skip": "NCP-Skip", "simple": "simple"}
_ACROSS = {  # the line styles of models without an order
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
    """Write the report on runs of one set of shapes and one latent size.

    Args:
        paths: Run folders, or folders of them.
        out: The HTML file.
        data_dir: Where data sets are looked for.
        index: The test shape that is shown.
        png: A folder for the figures as files; also an animation of the shape's sequence, where the set has sequences.

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
    header, *rows = result_rows(summaries)
    note = (
        "Mean, standard deviation and median over all vertices of all test shapes; ± is the deviation over the runs. "
        "Vertices that are not finite are counted, and make the mean infinite."
    )
    page.section("Result", html_table(header, rows), paragraph(note))
    figure = order_figure(shapes, groups)
    caption = "Mean error against the order of each layer's polynomial; bars are one deviation over the runs."
    page.section("Error against order", figure_svg(figure, caption, alt="error against order"))
    chosen = _by_order(shapes, groups)
    if chosen:
        _add_shapes(page, chosen, data_dir, index, png)
    if png is not None:
        write_bytes(Path(png) / "error-against-order.png", drawing_png(figure, dpi=200))
    write_bytes(out, page.render().encode())
    return text_table(summaries)


def order_figure(recipes: Mapping[str, AutoencodingRecipe], groups: Groups) -> Any:
    """The paper's figure of the error of every model against its order; models without an order are lines across."""
    figure, axes = new_figure(7.2, 4.2)
    curves: dict[tuple[str, str], dict[int, list[float]]] = {}
    across: dict[str, list[float]] = {}
    for name, recipe in recipes.items():
        errors = [run.result()["test"]["error_mm"] for run in groups[name]]
        if isinstance(recipe.model, Spiral):
            curves.setdefault((recipe.model.layer, recipe.model.activation), {})[recipe.model.order] = errors
        else:
            across[recipe.model.operator if isinstance(recipe.model, Graph) else "PCA"] = errors
    for color, layer in zip(COLORS, ("ncp", "ncp_skip", "simple", "plain"), strict=False):
        for activation, style, filled in (("none", "-", color), ("elu", "--", "white")):
            curve = dict(curves.get((layer, activation), {}))
            if layer != "plain" and curve:
                curve |= curves.get(("plain", activation), {})  # order 1 of every family
            elif any((other, activation) in curves for other in ("ncp", "ncp_skip", "simple")):
                continue  # its point is drawn with the others
            if not curve:
                continue
            orders = sorted(curve)
            label = f"{_NAMES[layer]}, {'no activation' if activation == 'none' else 'ELU'}"
            look = {"color": color, "linestyle": style, "marker": "o", "markerfacecolor": filled, "label": label}
            means = [statistics.fmean(curve[order]) for order in orders]
            spread = [deviation(curve[order]) for order in orders]
            axes.errorbar(orders, means, yerr=spread, capsize=3, **look)
    for name, errors in across.items():
        label, dashes = _ACROSS[name]
        axes.axhline(statistics.fmean(errors), color="#5b6170", linestyle=dashes, linewidth=1.2, label=label)
    tidy(axes, x="order of each layer's polynomial (1: plain spiral convolution)", y="mean error on test shapes, mm")
    axes.set_xticks(sorted({order for curve in curves.values() for order in curve}))
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def run_sections(run: TrainedRun) -> list[Section]:
    """The sections about an autoencoder in the report of its run: degree, errors of test shapes, and three shapes."""
    model = load_shape_model(run.path, data_dir=run.data_dir)
    test = model.splits.test.shapes
    chosen = evenly_chosen(len(test), _MOST_SHAPES)
    errors = model.errors(test[chosen])
    by_shape = errors.mean(dim=1)
    ranked = by_shape.argsort().tolist()  # those that are not finite come last
    places = {"best": ranked[0], "typical": ranked[len(ranked) // 2], "worst": ranked[-1]}
    named = {f"{name}: shape {int(chosen[place])}": place for name, place in places.items()}
    made = {name: model.reconstruct(test[chosen[[place]]])[0] for name, place in named.items()}
    three = draw_shapes(made, model.template.faces, {name: errors[place] for name, place in named.items()})
    mean = {"mean over shapes": errors.mean(dim=0)}
    where = draw_shapes(dict.fromkeys(mean, model.template.vertices), model.template.faces, mean)
    figure, axes = new_figure(5.2, 3.2)
    axes.hist(by_shape[by_shape.isfinite()].tolist(), bins=30, color=COLORS[0])
    tidy(axes, x="mean error of a test shape, mm", y="shapes")
    share = float((by_shape > 2 * by_shape.median()).double().mean())
    told = (
        f"Half of {len(chosen):,} test shapes have a mean error below {float(by_shape.median()):.3g} mm; the worst has "
        f"{float(by_shape.max()):.3g} mm, and {100 * share:.0f} % have more than twice the median."
    )
    certificate = certify(model.network, model.standardize(test[:1]))
    names = ", ".join(dict.fromkeys(found.operation for found in certificate.violations))
    degree = f"Yes: the autoencoder is {str(certificate).splitlines()[0]} in the coordinates of the vertices."
    return [
        Section("Is it a polynomial?", paragraph(degree if certificate.polynomial else f"No. In the way: {names}.")),
        Section(
            "Errors of the test shapes",
            paragraph(told),
            "<div class=stages>",
            figure_svg(figure, "How many shapes have which error.", alt="histogram of the errors of test shapes"),
            figure_svg(where, "The mean error of each vertex, on the template.", alt="mean error of each vertex"),
            "</div>",
            figure_svg(three, "Three test shapes as the autoencoder gives them back.", alt="reconstructed shapes"),
        ),
    ]


def _add_shapes(
    page: Page,
    chosen: Mapping[int, tuple[str, RunFolder]],
    data_dir: str | Path | None,
    index: int,
    png: str | Path | None,
) -> None:
    """As in the paper's last figure: a test shape, and what each order makes of it, coloured by the error."""
    models = {f"order {order}": load_shape_model(run.path, data_dir=data_dir) for order, (_, run) in chosen.items()}
    test = next(iter(models.values())).splits.test
    faces = test.template.faces
    if not 0 <= index < len(test):
        raise ValueError(f"there is no test shape {index}; they are numbered from 0 to {len(test) - 1}")

    def reconstructions(true: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        made = {"true": true} | {name: model.reconstruct(true) for name, model in models.items()}
        return made, {name: model.errors(true) for name, model in models.items()}

    made, errors = reconstructions(test.shapes[index : index + 1])
    shapes, error = ({name: shape[0] for name, shape in values.items()} for values in (made, errors))
    told = "; ".join(f"order {order} is {name}" for order, (name, _) in chosen.items())
    caption = f"From left to right: test shape {index}, and what each order makes of it ({told}). Drag to turn."
    page.section("A shape and its errors", turnable(shapes, faces, error), paragraph(caption))
    if png is None:
        return
    write_bytes(Path(png) / "shape-errors.png", drawing_png(draw_shapes(shapes, faces, error), dpi=200))
    if test.sequence is not None:
        first = index - index % test.sequence
        frames = test.shapes[first : first + test.sequence : _EVERY]
        moving, of_frames = reconstructions(frames)
        write_bytes(Path(png) / "motion.gif", animate_shapes(moving, faces, of_frames))


def _by_order(recipes: Mapping[str, AutoencodingRecipe], groups: Groups) -> dict[int, tuple[str, RunFolder]]:
    """A recipe and a run of it for each order: NCP without activations where there is one, else what there is.

    Empty if one of them is a record, without the weights to reconstruct shapes: the picture would show other networks.
    """
    found: dict[int, tuple[tuple[bool, bool], str]] = {}
    for name, recipe in recipes.items():
        if isinstance(recipe.model, Spiral):
            entry = ((recipe.model.layer not in ("ncp", "plain"), recipe.model.activation != "none"), name)
            found[recipe.model.order] = min(found.get(recipe.model.order, entry), entry)
    chosen = {order: (found[order][1], groups[found[order][1]][0]) for order in sorted(found)}
    return chosen if all(run.has_weights for _, run in chosen.values()) else {}


def _require_one_task(recipes: Mapping[str, AutoencodingRecipe], paths: Sequence[str | Path]) -> None:
    if not recipes:
        raise ValueError(f"there is no finished run of an autoencoder of shapes in {', '.join(map(str, paths))}")
    tasks = {(recipe.data, recipe.latent) for recipe in recipes.values()}
    if len(tasks) > 1:
        told = "; ".join(f"{data.name} with {latent} latent numbers" for data, latent in tasks)
        raise ValueError(f"the runs must be of one set of shapes and one latent size to be compared, got {told}")
