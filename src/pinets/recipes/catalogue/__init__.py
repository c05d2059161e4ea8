"""Every recipe by name, with the paper's values, and the tables and figures that compare them."""

from pinets.recipes.catalogue import (
    cifar,
    encrypted,
    faces,
    generation,
    imagenet,
    mesh,
    polynomial,
    speech,
    stylegan,
)

__all__ = ["cifar", "encrypted", "faces", "generation", "imagenet", "mesh", "polynomial", "speech", "stylegan"]
