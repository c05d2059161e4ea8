"""Generators of images: recipes, training against a discriminator, sampling and measuring."""

from pinets.tasks.generation import catalogue, metrics
from pinets.tasks.generation.losses import Hinge, NonSaturating, Wasserstein
from pinets.tasks.generation.metrics import protocol_names
from pinets.tasks.generation.recipe import GenerationRecipe, Network, Pictures, draw_noise
from pinets.tasks.generation.sampling import (
    interpolate,
    measure,
    real_images,
    sample,
    sample_batches,
    sample_degrees,
)
from pinets.tasks.generation.task import Generation

__all__ = [
    "Generation",
    "GenerationRecipe",
    "Hinge",
    "Network",
    "NonSaturating",
    "Pictures",
    "Wasserstein",
    "catalogue",
    "draw_noise",
    "interpolate",
    "measure",
    "metrics",
    "protocol_names",
    "real_images",
    "sample",
    "sample_batches",
    "sample_degrees",
]
