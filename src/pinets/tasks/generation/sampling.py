"""Images from the generator of a run, or from trained weights, and how good they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._nearest import did_you_mean
from pinets.algebra import orders
from pinets.data.batches import keyed_generator
from pinets.data.samples import read_fixed
from pinets.engine.randomness import seeded
from pinets.engine.recipe import recipe_from_json
from pinets.engine.trained import TrainedRun
from pinets.models import ImageGenerator, StyleGenerator, list_weights, load_weights, read_card
from pinets.tasks.generation.metrics import GenerationResult, protocol_names
from pinets.tasks.generation.metrics import evaluate as evaluate_images
from pinets.tasks.generation.recipe import GenerationRecipe, draw_noise
from pinets.tasks.generation.task import EVALUATION_SEED, to_pixels

__all__ = ["interpolate", "measure", "noise_of_samples", "real_images", "sample", "sample_batches", "sample_degrees"]

_BATCH = 64  # images generated at a time; only memory depends on it


def sample(path: str | Path, count: int = 64, *, seed: int = 0, truncation: float = 1.0) -> Tensor:
    """Images, uint8 (N, C, H, W), from the newest weights of a run.

    Args:
        path: The run folder, or the name of trained weights.
        count: How many.
        seed: Seed of the noise: the same seed gives the same images, and a larger count more of them.
        truncation: Less than 1 draws them towards the average image: fewer kinds, but better ones.
    """
    return torch.cat([*sample_batches(path, count, seed=seed, truncation=truncation)])


def sample_batches(path: str | Path, count: int = 64, *, seed: int = 0, truncation: float = 1.0) -> Iterator[Tensor]:
    """The images of :func:`sample` in batches, for more than memory holds."""
    recipe, generator = _generator(path)
    batches = -(-count // _BATCH)  # only whole ones, so that StyleGAN's noise inputs do not depend on the count
    noise = noise_of_samples(recipe, batches * _BATCH, generator.latent, seed)
    for number, part in enumerate(noise.split(_BATCH)):
        yield _generate(generator, part, truncation, (seed, number))[: count - number * _BATCH]


def interpolate(path: str | Path, rows: int = 8, steps: int = 8, *, seed: int = 0, truncation: float = 1.0) -> Tensor:
    """Images on the way from one point of the noise to another, row by row: uint8 (rows * steps, C, H, W).

    Normal noise is followed on the arc between the points, where its length is that of samples; uniform noise on the
    straight line. The noise inputs of StyleGAN stay the same on the way.
    """
    recipe, generator = _generator(path)
    first, last = noise_of_samples(recipe, 2 * rows, generator.latent, seed).chunk(2)
    ways = []
    for share in torch.linspace(0, 1, steps):
        between = _arc(first, last, share) if recipe.noise == "normal" else torch.lerp(first, last, share)
        ways.append(_generate(generator, between, truncation, (seed,)))
    return torch.stack(ways, dim=1).flatten(0, 1)


def sample_degrees(path: str | Path, count: int = 6, *, seed: int = 0) -> Tensor:
    """Images of a polynomial generator, built up degree by degree: uint8 (count, N + 1, C, H, W).

    Image ``n`` of a sample is that of all terms of the polynomial up to degree ``n`` in the noise; the last is the
    sample.

    Args:
        path: The run folder of a generator without activations, or the name of trained weights.
        count: How many samples.
        seed: Seed of the noise, as for :func:`sample`.
    """
    recipe, generator = _generator(path)
    if not isinstance(generator, ImageGenerator):
        raise ValueError(f"the generator of {path} is not a polynomial of the noise: it has activations")
    noise = noise_of_samples(recipe, count, generator.latent, seed)
    with torch.no_grad():
        terms = orders(generator.network, noise)  # (degree, sample, C, H, W)
        return to_pixels(generator.bound(terms.cumsum(0))).transpose(0, 1).contiguous()


def measure(
    path: str | Path,
    protocol: str | None = None,
    *,
    samples: int | None = None,
    truncation: float = 1.0,
    data_dir: str | Path | None = None,
) -> GenerationResult:
    """Measure the images of a generator by a named protocol.

    Args:
        path: The run folder, or the name of trained weights.
        protocol: One of ``pinets.tasks.generation.metrics.PROTOCOLS``; that of the recipe, which then has only
            one, if left out.
        samples: Another number of images than the protocol's, which is then said in the result.
        truncation: As in :func:`sample`; less than 1 is said in the result.
        data_dir: Where data sets and the weights of Inception are; the former where they were in training if left out.
    """
    _require_truncation(truncation)
    recipe, generator = _generator(path)
    named = protocol_names(protocol or recipe.metric)
    if len(named) != 1:
        many = f"several metrics, {', '.join(named)}: choose one of them" if named else "no metric: choose a protocol"
        raise ValueError(f"the recipe of {path} names {many}, such as {next(iter(named), 'fid5k')}")
    (chosen,) = named

    def images(count: int) -> Tensor:
        return to_pixels(generator.truncated(draw_noise(recipe.noise, count, generator.latent), truncation))

    data = _data(path, data_dir)
    reference = recipe.reference(chosen, data.train, data.test)
    with seeded(EVALUATION_SEED), torch.no_grad():
        result = evaluate_images(images, reference, chosen, samples=samples, data_dir=data_dir)
    return result if truncation == 1 else replace(result, protocol=f"{result.protocol}, truncation {truncation:g}")


def real_images(path: str | Path, count: int = 64, *, seed: int = 0, data_dir: str | Path | None = None) -> Tensor:
    """Images of the test set of a run, chosen at random, to compare with."""
    images = _data(path, data_dir).test
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count]
    return read_fixed(images, chosen)


def _trained(path: str | Path, data_dir: str | Path | None = None) -> tuple[GenerationRecipe, TrainedRun | None]:
    """The recipe, and the run; None for the name of trained weights. A run folder of that name takes precedence."""
    name, run = str(path), None
    if Path(path).is_dir() or not name.isidentifier():
        run = TrainedRun(path, data_dir)
        recipe = run.recipe
    elif name in (known := list_weights()):
        recipe = recipe_from_json(read_card(name).recipe)
    else:
        raise ValueError(f"{name} is neither a run folder nor the name of trained weights{did_you_mean(name, known)}")
    if not isinstance(recipe, GenerationRecipe):
        raise ValueError(
            f"{path} is a network of {recipe.name}: it has no generator to sample from; "
            "with an autoencoder of shapes: pinets sample reconstruct, interpolate or arithmetic"
        )
    return recipe, run


def _data(path: str | Path, data_dir: str | Path | None) -> Any:
    recipe, run = _trained(path, data_dir)
    return recipe.load(data_dir) if run is None else run.data


def _generator(path: str | Path) -> tuple[GenerationRecipe, ImageGenerator | StyleGenerator]:
    recipe, run = _trained(path)
    generator = load_weights(str(path))[0] if run is None else run.network()
    assert isinstance(generator, ImageGenerator | StyleGenerator)
    return recipe, generator


def noise_of_samples(recipe: GenerationRecipe, count: int, latent: int, seed: int) -> Tensor:
    """The noise of the first samples of a seed."""
    with seeded(seed):
        # one by one: torch fills the end of a tensor differently, and the last image would depend on the count
        return torch.cat([draw_noise(recipe.noise, 1, latent) for _ in range(count)])


@torch.no_grad()
def _generate(
    generator: ImageGenerator | StyleGenerator, noise: Tensor, truncation: float, key: tuple[int, ...]
) -> Tensor:
    """Images of noise; the key seeds what a generator draws itself (StyleGAN's noise inputs)."""
    _require_truncation(truncation)
    with seeded(keyed_generator(key).initial_seed()):
        return to_pixels(generator.truncated(noise, truncation))


def _require_truncation(truncation: float) -> None:
    if not 0 <= truncation <= 1:
        raise ValueError(f"truncation must lie between 0 and 1, got {truncation}")


def _arc(first: Tensor, last: Tensor, share: Tensor) -> Tensor:
    angle = torch.arccos(torch.cosine_similarity(first, last, dim=-1).clamp(-0.999, 0.999))[:, None]
    return (torch.sin((1 - share) * angle) * first + torch.sin(share * angle) * last) / torch.sin(angle)
