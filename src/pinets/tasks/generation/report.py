"""The sections about a generator in the report of its run: samples during training, and the effect of each degree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pinets.algebra import orders
from pinets.data.formats.images import encode_png, image_grid
from pinets.engine.trained import TrainedRun
from pinets.models import ImageGenerator
from pinets.report import Section, figure_svg, new_figure, paragraph, picture, tidy
from pinets.tasks.generation.recipe import GenerationRecipe
from pinets.tasks.generation.sampling import noise_of_samples, real_images
from pinets.tasks.generation.task import to_pixels

__all__ = ["degree_sizes", "run_sections"]

_STAGES = 4  # stages of training that are shown
_SAMPLES = 8  # samples that are split by degree
_REAL = 64
_MOST_DEGREES = 64


def run_sections(run: TrainedRun) -> list[Section]:
    """The sections about a finished run of a generator."""
    return [_stages(run), _beside_real(run), _degrees(run)]


def _stages(run: TrainedRun) -> Section:
    files = run.folder.pictures("samples")
    places = sorted({round(share * (len(files) - 1) / (_STAGES - 1)) for share in range(_STAGES)}) if files else []
    steps = [(files[place], int(files[place].stem.rpartition("-")[2])) for place in places]
    explained = "The same noise each time, from the first evaluation to the last."
    shown = [picture(file, f"step {step:,}") for file, step in steps]
    return Section("Samples during training", paragraph(explained), f"<div class=stages>{''.join(shown)}</div>")


def _beside_real(run: TrainedRun) -> Section:
    try:
        real = real_images(run.path, _REAL, data_dir=run.data_dir)
    except (OSError, ValueError) as error:
        return Section("Real images", paragraph(f"They could not be read: {error}"))
    caption = f"{len(real)} images of the test set, to compare with."
    return Section("Real images", picture(encode_png(image_grid(real)), caption))


def _degrees(run: TrainedRun) -> Section:
    title = "What each degree adds"
    generator = run.network()
    if not isinstance(generator, ImageGenerator):
        return Section(title, paragraph("The generator is not a polynomial of its noise: it has activations."))
    recipe = run.recipe
    assert isinstance(recipe, GenerationRecipe)
    noise = noise_of_samples(recipe, _SAMPLES, generator.latent, seed=0)
    try:
        with torch.no_grad():
            parts = orders(generator.network, noise)
    except ValueError as error:
        return Section(title, paragraph(f"The generator is not a polynomial of its noise: {error}"))
    if len(parts) > _MOST_DEGREES:
        return Section(title, paragraph(f"There are {len(parts) - 1} degrees, more than a page shows."))
    sizes = degree_sizes(parts)
    figure, axes = new_figure(9, 3)
    axes.bar(range(len(sizes)), sizes, color="#3556c9")
    tidy(axes, x="degree in the noise", y="contribution to a pixel (RMS)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    caption = f"Exact, over {_SAMPLES} samples, before the last function that bounds the pixels."
    with torch.no_grad():
        sums = to_pixels(generator.bound(parts.cumsum(0)))  # (degree, sample, C, H, W)
    rows = sums.transpose(0, 1)[: _SAMPLES // 2].flatten(0, 1)
    grid = encode_png(image_grid(rows, columns=len(parts)))
    told = f"A row is a sample: the constant alone, then all terms up to degree 1, 2, ..., {len(parts) - 1}."
    return Section(
        title,
        paragraph(_sentence(sizes)),
        figure_svg(figure, caption, alt="Contribution of each degree to the pixels"),
        f"<div class=stages>{picture(grid, told)}</div>",
    )


def degree_sizes(parts: Tensor) -> list[float]:
    """The root mean square of each degree's contribution, (degree + 1, samples, ...)."""
    return parts.flatten(1).square().mean(dim=1).sqrt().tolist()


def _sentence(sizes: Sequence[float]) -> str:
    varying = sizes[1:]
    total = sum(size**2 for size in varying)
    if not total:
        return "Its images do not depend on the noise."
    largest = max(range(len(varying)), key=lambda place: varying[place]) + 1
    share = varying[largest - 1] ** 2 / total
    return (
        f"The generator is a polynomial of degree {len(varying)} in its noise. Of what depends on the noise, degree "
        f"{largest} is the largest part: {100 * share:.0f} % of the sum of squares."
    )
