"""Images from the generator of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from pinets.models.generation import ImageGenerator, StyleGenerator
from pinets.recipes.adversarial import GenerationRecipe, draw_noise
from pinets.recipes.registry import recipe_from_json
from pinets.recipes.trained import trained
from pinets.train.generation import to_pixels
from pinets.train.run import RunFolder

__all__ = ["interpolate", "real_images", "sample"]

_BATCH = 64  # images generated at a time; only memory depends on it


def sample(path: str | Path, count: int = 64, *, seed: int = 0, truncation: float = 1.0) -> Tensor:
    """Images, uint8 (N, C, H, W), from the newest weights of a run.

    Args:
        path: The run folder.
        count: How many.
        seed: Of the noise: the same images for the same seed, and more of them for a larger count.
        truncation: Less than 1 draws them towards the average image: fewer kinds, but better ones.
    """
    recipe, generator = _generator(path)
    with _from_seed(seed):
        # one by one: torch draws the end of a tensor differently, so that the last image would depend on the count
        noise = torch.cat([draw_noise(recipe.noise, 1, generator.latent) for _ in range(count)])
        return _generate(generator, noise, truncation)


def interpolate(path: str | Path, rows: int = 8, steps: int = 8, *, seed: int = 0, truncation: float = 1.0) -> Tensor:
    """Images on the way from one point of the noise to another, row by row: uint8 (rows * steps, C, H, W).

    Normal noise is followed on the arc between the points, where its length is that of samples; uniform noise on the
    straight line.
    """
    recipe, generator = _generator(path)
    with _from_seed(seed):
        first, last = torch.cat([draw_noise(recipe.noise, 1, generator.latent) for _ in range(2 * rows)]).chunk(2)
        share = torch.linspace(0, 1, steps)[None, :, None]
        first, last = first[:, None], last[:, None]
        between = _arc(first, last, share) if recipe.noise == "normal" else torch.lerp(first, last, share)
        return _generate(generator, between.flatten(0, 1), truncation)


def real_images(path: str | Path, count: int = 64, *, seed: int = 0, data_dir: str | Path | None = None) -> Tensor:
    """Images of the test set of a run, chosen at random, to compare with."""
    recipe = _recipe(path)
    _, images = recipe.data.load(data_dir)
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count]
    return images.read(chosen, torch.empty(len(chosen), images.draws))


def _recipe(path: str | Path) -> GenerationRecipe:
    recipe = recipe_from_json(RunFolder(path).recipe())
    if not isinstance(recipe, GenerationRecipe):
        raise ValueError(f"the run in {path} is of a {type(recipe).__name__}: it has no generator to sample from")
    return recipe


def _generator(path: str | Path) -> tuple[GenerationRecipe, ImageGenerator | StyleGenerator]:
    recipe = _recipe(path)
    generator = trained(path).network
    assert isinstance(generator, ImageGenerator | StyleGenerator)
    return recipe, generator


@torch.no_grad()
def _generate(generator: ImageGenerator | StyleGenerator, noise: Tensor, truncation: float) -> Tensor:
    if not 0 <= truncation <= 1:
        raise ValueError(f"truncation must lie between 0 and 1, got {truncation}")
    return torch.cat([to_pixels(generator.truncated(part, truncation)) for part in noise.split(_BATCH)])


def _arc(first: Tensor, last: Tensor, share: Tensor) -> Tensor:
    angle = torch.arccos(torch.cosine_similarity(first, last, dim=-1).clamp(-0.999, 0.999))[..., None]
    return (torch.sin((1 - share) * angle) * first + torch.sin(share * angle) * last) / torch.sin(angle)


@contextmanager
def _from_seed(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
