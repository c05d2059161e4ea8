"""Recipes for autoencoders of shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets.data import Splits, load
from pinets.data.splits import evenly_chosen
from pinets.engine.loop import Plan
from pinets.engine.optimization import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Exponential,
    LinearDecay,
    MultiStep,
    OneCycle,
    Warmup,
    require_range,
)
from pinets.engine.randomness import seed_everything, seed_processes_apart
from pinets.engine.recipe import Findings, InputInfo, Recipe, evaluation_batches, output_shape
from pinets.engine.task import Split
from pinets.models.mesh_graph import OperatorName, graph_autoencoder
from pinets.models.mesh_pca import MeshPCA
from pinets.models.spiral import LayerName, NormName, SpiralActivation, spiral_autoencoder
from pinets.operators.hierarchy import Hierarchy
from pinets.tasks.meshes.geometry.hierarchy import HierarchyPlan, cached_hierarchy
from pinets.tasks.meshes.mesh_set import MeshSet, Standardize, reduce_shapes
from pinets.tasks.meshes.task import MeshAutoencoding

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["PCA", "AutoencodingRecipe", "Graph", "Shapes", "Spiral", "load_hierarchy"]

_EVALUATION_BATCH = 32  # over all processes; only speed and memory depend on it


@dataclass(frozen=True)
class Shapes:
    """A set of shapes of one topology.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        vertices: How many a shape has.
        reduced: Whether they are fewer than the set's own, by quadric edge collapse of the template.
        limit: Train on this many shapes only, spread evenly over the training shapes.
        split: For COMA, ``"interpolation"`` or ``"extrapolation:EXPRESSION"``; the set's own if left out.
        millimetres: How many of them the unit of your own shapes has; the set's own if left out.
        sequence: Frames in a sequence of your own shapes, of which validation holds out whole ones; the set's own if
            left out.
    """

    name: str
    vertices: int
    reduced: bool = False
    limit: int | None = None
    split: str | None = None
    millimetres: float | None = None
    sequence: int | None = None

    def __post_init__(self) -> None:
        require_range("vertices", self.vertices, at_least=1)
        if self.limit is not None:
            require_range("limit", self.limit, at_least=2)  # a deviation needs two
        if self.millimetres is not None:
            require_range("millimetres", self.millimetres, above=0)
        if self.sequence is not None:
            require_range("sequence", self.sequence, at_least=1)

    def load(self, data_dir: str | Path | None) -> Splits[MeshSet]:
        given = {"split": self.split, "millimetres": self.millimetres, "sequence": self.sequence}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        splits = load(self.name, data_dir, **options)
        own = len(splits.train.template.vertices)
        if self.reduced and self.vertices > own:
            raise ValueError(f"data.vertices is {self.vertices}, but the shapes of {self.name} have {own}")
        if self.reduced:
            splits = reduce_shapes(splits, self.vertices)
        found = len(splits.train.template.vertices)
        if found != self.vertices:
            raise ValueError(f"data.vertices is {self.vertices}, but the shapes of {self.name} have {found}")
        if self.limit is None or self.limit >= len(splits.train):
            return splits
        chosen = evenly_chosen(len(splits.train), self.limit)
        return Splits(splits.train.subset(chosen), splits.validation, splits.test)

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """The positions of all vertices."""
        return InputInfo((self.vertices, 3))


@dataclass(frozen=True)
class Spiral:
    """A spiral network or Spiral Π-net; see :func:`pinets.models.spiral.spiral_autoencoder`."""

    layer: LayerName = "plain"
    order: int = 1
    activation: SpiralActivation = "elu"
    norm: NormName = "instance"
    encoder: tuple[int, ...] = (3, 16, 16, 16, 32)
    decoder: tuple[int, ...] = (32, 32, 16, 16, 3)

    def build(self, hierarchy: Hierarchy, latent: int) -> nn.Module:
        return spiral_autoencoder(hierarchy, latent=latent, **vars(self))


@dataclass(frozen=True)
class Graph:
    """A graph network; see :func:`pinets.models.mesh_graph.graph_autoencoder`."""

    operator: OperatorName
    encoder: tuple[int, ...] = (3, 16, 16, 16, 32)
    decoder: tuple[int, ...] = (32, 32, 16, 16, 3)

    def build(self, hierarchy: Hierarchy, latent: int) -> nn.Module:
        return graph_autoencoder(hierarchy, latent=latent, **vars(self))


@dataclass(frozen=True)
class PCA:
    """Principal components, which are computed and not trained."""

    def build(self, hierarchy: Hierarchy, latent: int) -> MeshPCA:
        return MeshPCA(hierarchy.sizes[0], latent)


@dataclass(frozen=True, kw_only=True)
class AutoencodingRecipe(Recipe):
    """The recipe of one autoencoder of shapes.

    Args:
        model: What to train.
        data: On what.
        hierarchy: How the template is down-sampled, and its spirals; with their lengths.
        latent: Size of the vector in the middle.
        optimizer: With its learning rate.
        schedule: How the learning rate changes.
        clip: Largest norm of the gradient; longer ones are shortened. ``None`` for no limit.
    """

    model: Spiral | Graph | PCA
    data: Shapes
    hierarchy: HierarchyPlan
    latent: int
    optimizer: SGD | Adam | AdamW
    schedule: MultiStep | Warmup | OneCycle | LinearDecay | Exponential | Constant
    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hierarchy.lengths is None:
            raise ValueError("hierarchy.lengths must be given: the number of weights depends on them")
        require_range("latent", self.latent, at_least=1)
        if self.clip is not None:
            require_range("clip", self.clip, above=0)  # torch would reverse the gradient

    def networks(self) -> dict[str, nn.Module]:
        self.hierarchy.check()
        sizes, lengths = self.hierarchy.sizes(self.data.vertices), self.hierarchy.dilated_lengths()
        assert lengths is not None
        return {"model": self.model.build(Hierarchy.blank(sizes, lengths), self.latent)}

    def rebuild(self, data: Callable[[], Any]) -> dict[str, nn.Module]:
        # the spirals are those of the template, which comes with the data
        return {"model": self.model.build(load_hierarchy(self, data().train), self.latent)}

    def _look(self, found: Findings, data_dir: str | Path | None) -> None:
        with found.of("model"), torch.random.fork_rng(devices=[]):
            self.networks()
        data: Splits[MeshSet] | None = None
        with found.of("data"):
            data = self.load(data_dir)
        if data is None:
            return
        self._look_at_batches(found, len(data.train))
        with found.of("data"):
            Standardize.of(data.train.shapes)
        if isinstance(self.model, PCA) and len(data.train) < self.latent:
            found.mismatches.append(f"latent: {self.latent} components need as many shapes, got {len(data.train)}")
        with found.of("hierarchy"), torch.random.fork_rng(devices=[]):
            hierarchy = load_hierarchy(self, data.train)
            output_shape(self.model.build(hierarchy, self.latent), (self.data.vertices, 3))

    def build(self, data: Splits[MeshSet], accelerator: Accelerator) -> MeshAutoencoding:
        hierarchy = load_hierarchy(self, data.train, accelerator)
        standardize = Standardize.of(data.train.shapes)
        seed_everything(self.seed, accelerator.device)
        network = self.model.build(hierarchy, self.latent)

        def samples(split: Split) -> Iterable[tuple[Tensor, Tensor]]:
            return evaluation_batches(data, split, _EVALUATION_BATCH, standardize, accelerator)

        task = MeshAutoencoding(
            network,
            samples=samples,
            standardize=standardize,
            millimetres=data.train.millimetres,
            accelerator=accelerator,
            clip=self.clip,
        )
        seed_processes_apart(self.seed, accelerator)
        return task

    def prepare_training(self, task: MeshAutoencoding, data: Splits[MeshSet], accelerator: Accelerator) -> Plan:
        task.batches = self.training_batches(data.train, task.standardize, accelerator)
        plan = self.plan(task.batches)
        network = accelerator.unwrap_model(task.network)
        if isinstance(network, MeshPCA):
            network.fit(data.train.shapes, task.standardize.mean, task.standardize.deviation)
            return replace(plan, steps=1, steps_per_epoch=1)  # nothing is left to train
        optimizer = self.optimizer.build(task.network.parameters())
        schedule = self.schedule.attach(optimizer, steps_per_epoch=plan.steps_per_epoch, epochs=self.epochs)
        task.optimizers, task.schedules = {"model": accelerator.prepare(optimizer)}, {"model": schedule}
        return plan


def load_hierarchy(recipe: AutoencodingRecipe, shapes: MeshSet, accelerator: Accelerator | None = None) -> Hierarchy:
    """The hierarchy of a set's template, cached; the main process builds it."""
    with nullcontext() if accelerator is None else accelerator.main_process_first():
        hierarchy, _ = cached_hierarchy(shapes.template, recipe.hierarchy)
    return hierarchy


def with_widths(
    model: Spiral | Graph | PCA, encoder: tuple[int, ...], decoder: tuple[int, ...]
) -> Spiral | Graph | PCA:
    """The same model with other widths; principal components have none."""
    return model if isinstance(model, PCA) else replace(model, encoder=encoder, decoder=decoder)
