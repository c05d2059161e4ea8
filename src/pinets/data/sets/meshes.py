"""Shapes of one topology: the same faces for all, one position of every vertex for each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from pinets.data.errors import DataError
from pinets.data.samples import ArraySet, Splits
from pinets.data.transforms.images import Transform
from pinets.mesh.decimation import collapse
from pinets.mesh.mesh import Mesh

__all__ = ["MeshSet", "Standardize", "mesh_splits", "reduce_shapes"]


@dataclass(frozen=True, eq=False, repr=False)
class MeshSet(ArraySet):
    """Shapes of one topology in memory: float32, (N, V, 3).

    Args:
        inputs: The positions of the vertices.
        labels: Which sequence or subject each belongs to.
        classes: Their names.
        template: A mesh of the same topology.
        millimetres: How many of them the unit of the positions has.
    """

    template: Mesh = field(kw_only=True)
    millimetres: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.millimetres > 0:
            raise DataError(f"millimetres must be positive, got {self.millimetres}")
        vertices = len(self.template.vertices)
        if self.inputs.dtype != torch.float32 or self.inputs.ndim != 3 or self.inputs.shape[1:] != (vertices, 3):
            raise DataError(
                f"shapes must be float32 (N, {vertices}, 3), as the template has {vertices} vertices; got "
                f"{tuple(self.inputs.shape)} {self.inputs.dtype}"
            )
        finite = torch.isfinite(self.inputs).flatten(1).all(dim=1)
        if not finite.all():
            first = int((~finite).nonzero()[0])
            raise DataError(f"shape {first} has vertices that are not finite; {int((~finite).sum())} shapes do")

    @property
    def shapes(self) -> Tensor:
        return self.inputs


def mesh_splits(
    train: Tensor,
    test: Tensor,
    template: Mesh,
    millimetres: float,
    *,
    validation: float | Tensor = 0.1,
) -> Splits[MeshSet]:
    """The three parts from two arrays of shapes; validation is the last of the training shapes.

    Not at random: in a sequence, a shape has the same shape before and after it but for a little.

    Args:
        train: float32, (N, V, 3).
        test: float32, (M, V, 3).
        template: Of the same topology.
        millimetres: How many of them the unit of the positions has.
        validation: The fraction of the training shapes that is held out, or shapes of its own.
    """

    def part(shapes: Tensor, name: str) -> MeshSet:
        if len(shapes) == 0:
            raise DataError(f"there are no shapes for {name}")
        labels = torch.zeros(len(shapes), dtype=torch.int64)
        return MeshSet(shapes, labels, ("shape",), template=template, millimetres=millimetres)

    if isinstance(validation, Tensor):
        return Splits(part(train, "training"), part(validation, "the validation"), part(test, "the test"))
    if not 0 < validation < 1:
        raise ValueError(f"validation must lie between 0 and 1, got {validation}")
    held = max(1, round(validation * len(train)))
    if held >= len(train):
        raise DataError(f"nothing remains of {len(train)} training shapes when {held} are held out")
    return Splits(part(train[:-held], "training"), part(train[-held:], "the validation"), part(test, "the test"))


def reduce_shapes(splits: Splits[MeshSet], vertices: int) -> Splits[MeshSet]:
    """The same shapes with fewer vertices: those that quadric edge collapse of the template keeps."""
    kept, template = collapse(splits.train.template, vertices)

    def part(samples: MeshSet) -> MeshSet:
        return replace(samples, inputs=samples.shapes[:, kept].contiguous(), template=template)

    return Splits(part(splits.train), part(splits.validation), part(splits.test))


@dataclass(frozen=True, eq=False)
class Standardize(Transform):
    """Subtract the mean and divide by the deviation of each coordinate of each vertex.

    Args:
        mean: (V, 3).
        deviation: (V, 3), positive.

    Example:
        >>> shapes = 3 + 2 * torch.randn(1000, 4, 3)
        >>> standard = Standardize.of(shapes)(shapes)
        >>> bool(standard.std(0).sub(1).abs().max() < 1e-4)
        True
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, shapes: Tensor) -> Self:
        """From the training shapes; a coordinate that never changes keeps its scale."""
        if len(shapes) < 2:
            raise DataError(f"a deviation needs at least two shapes, got {len(shapes)}")
        mean = shapes.mean(dim=0)
        deviation = torch.zeros_like(mean)
        for few in shapes.split(256):  # one copy of all shapes would not fit beside them
            deviation += (few - mean).square().sum(dim=0)
        deviation = (deviation / (len(shapes) - 1)).sqrt()
        return cls(mean, torch.where(deviation > 1e-6 * deviation.max(), deviation, 1.0))

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        return (inputs - self.mean.to(inputs.device)) / self.deviation.to(inputs.device)

    def undo(self, standard: Tensor) -> Tensor:
        """Positions from standardised ones."""
        return standard * self.deviation.to(standard.device) + self.mean.to(standard.device)
