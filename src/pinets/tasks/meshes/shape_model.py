"""Use the autoencoder of a run: reconstruct, interpolate, calculate with latent vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pinets.data import Splits
from pinets.engine.trained import TrainedRun
from pinets.operators.mesh import Mesh
from pinets.tasks.meshes.mesh_set import MeshSet, Standardize
from pinets.tasks.meshes.metrics import vertex_distances
from pinets.tasks.meshes.recipe import AutoencodingRecipe

__all__ = ["ShapeModel", "load_shape_model"]


@dataclass(frozen=True, eq=False)
class ShapeModel:
    """The trained autoencoder of a run, with the standardisation of its shapes.

    Attributes:
        network: In evaluation mode.
        standardize: The standardisation by the training shapes.
        splits: All shapes.
        recipe: What it was trained with.
    """

    network: nn.Module
    standardize: Standardize
    splits: Splits[MeshSet]
    recipe: AutoencodingRecipe

    @property
    def template(self) -> Mesh:
        return self.splits.train.template

    @torch.no_grad()
    def encode(self, shapes: Tensor) -> Tensor:
        """Latent vectors, (N, latent), of shapes in their own unit, (N, V, 3)."""
        return torch.cat([self.network.encode(self.standardize(few)) for few in shapes.split(32)])  # type: ignore[operator]

    @torch.no_grad()
    def decode(self, vectors: Tensor) -> Tensor:
        """Shapes of latent vectors."""
        return torch.cat([self.standardize.undo(self.network.decode(few)) for few in vectors.split(32)])  # type: ignore[operator]

    def reconstruct(self, shapes: Tensor) -> Tensor:
        """Encode and decode shapes."""
        return self.decode(self.encode(shapes))

    def errors(self, shapes: Tensor) -> Tensor:
        """The error of every vertex in millimetres, (N, V)."""
        return self.splits.train.millimetres * vertex_distances(self.reconstruct(shapes), shapes)

    def interpolate(self, first: Tensor, last: Tensor, steps: int) -> Tensor:
        """Shapes from one to another, (V, 3) each, in equal steps between their latent vectors, both ends included."""
        if steps < 2:
            raise ValueError(f"an interpolation has at least its 2 ends, got {steps} steps")
        start, end = self.encode(torch.stack([first, last]))
        return self.decode(torch.lerp(start, end, torch.linspace(0, 1, steps)[:, None]))

    def arithmetic(self, minuend: Tensor, subtrahend: Tensor, onto: Tensor) -> Tensor:
        """The shape of z(a) - z(b) + z(c): the change from b to a, applied to c."""
        a, b, c = self.encode(torch.stack([minuend, subtrahend, onto]))
        return self.decode((a - b + c)[None])[0]


def load_shape_model(path: str | Path, *, data_dir: str | Path | None = None) -> ShapeModel:
    """The newest weights of a run of an :class:`~pinets.tasks.meshes.recipe.AutoencodingRecipe`."""
    run = TrainedRun(path, data_dir)
    recipe = run.recipe
    if not isinstance(recipe, AutoencodingRecipe):
        raise ValueError(f"the run in {path} is of {recipe.name}, which is no autoencoder of shapes")
    return ShapeModel(run.network(), Standardize.of(run.data.train.shapes), run.data, recipe)
