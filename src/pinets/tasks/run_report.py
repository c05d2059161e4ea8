"""What the report of a run says beyond its curves, by the kind of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinets.engine.run import RunFolder
from pinets.engine.trained import TrainedRun
from pinets.report import Section, figure_svg, paragraph
from pinets.tasks.classification import report as classification
from pinets.tasks.generation import report as generation
from pinets.tasks.generation.recipe import GenerationRecipe
from pinets.tasks.meshes.drawing import draw_shapes
from pinets.tasks.meshes.recipe import AutoencodingRecipe
from pinets.tasks.meshes.shape_model import load_shape_model

__all__ = ["about_run"]

_MOST_SHAPES = 200


def about_run(folder: RunFolder, data_dir: str | Path | None = None) -> Sequence[Section]:
    """The sections about a finished run; a run that cannot be analysed, because its data are gone say, gets the reason.

    Args:
        folder: The run folder.
        data_dir: The data folder; by default the one of training.
    """
    try:
        run = TrainedRun(folder.path, data_dir)
        if isinstance(run.recipe, AutoencodingRecipe):
            return _shape_sections(run)
        if isinstance(run.recipe, GenerationRecipe):
            return generation.run_sections(run)
        return classification.run_sections(run)
    except (ValueError, RuntimeError, OSError, TypeError) as error:
        return [Section("The network", paragraph(f"It could not be looked at: {error}"))]


def _shape_sections(run: TrainedRun) -> list[Section]:
    """The best, a typical and the worst of the test shapes, as the autoencoder gives them back."""
    model = load_shape_model(run.path, data_dir=run.data_dir)
    shapes = model.splits.test.shapes[:_MOST_SHAPES]
    errors = model.errors(shapes)
    ranked = errors.mean(dim=1).argsort().tolist()
    chosen = {"best": ranked[0], "typical": ranked[len(ranked) // 2], "worst": ranked[-1]}
    names = {f"{name}: shape {number}": number for name, number in chosen.items()}
    made = {name: model.reconstruct(shapes[number : number + 1])[0] for name, number in names.items()}
    figure = draw_shapes(made, model.template.faces, {name: errors[number] for name, number in names.items()})
    caption = (
        f"Of {len(shapes)} test shapes, what the autoencoder makes of three, coloured by the error of each vertex."
    )
    return [
        Section("Reconstructed test shapes", figure_svg(figure, caption, alt="reconstructed shapes and their errors"))
    ]
