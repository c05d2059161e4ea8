"""The sections of a run's report beyond its curves, by the kind of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinets.engine.run import RunFolder
from pinets.engine.trained import TrainedRun
from pinets.report import Section, paragraph
from pinets.tasks.classification import report as classification
from pinets.tasks.faces import report as faces
from pinets.tasks.faces.recipe import FaceRecipe
from pinets.tasks.generation import report as generation
from pinets.tasks.generation.recipe import GenerationRecipe
from pinets.tasks.meshes import report as meshes
from pinets.tasks.meshes.recipe import AutoencodingRecipe

__all__ = ["about_run"]


def about_run(folder: RunFolder, data_dir: str | Path | None = None) -> Sequence[Section]:
    """The sections about a finished run; a run that cannot be analysed, because its data are gone say, gets the reason.

    Args:
        folder: The run folder.
        data_dir: The data folder; by default the one of training.
    """
    try:
        run = TrainedRun(folder.path, data_dir)
        if isinstance(run.recipe, AutoencodingRecipe):
            return meshes.run_sections(run)
        if isinstance(run.recipe, FaceRecipe):
            return faces.run_sections(run)
        if isinstance(run.recipe, GenerationRecipe):
            return generation.run_sections(run)
        return classification.run_sections(run)
    except (ValueError, RuntimeError, OSError, TypeError) as error:
        return [Section("The network", paragraph(f"It could not be looked at: {error}"))]
