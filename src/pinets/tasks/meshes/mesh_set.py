"""Shapes of one topology: the same faces for all, one position of every vertex for each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from pinets.data.errors import DataError
from pinets.data.samples import ArraySet, Splits
from pinets.data.transforms import Transform
from pinets.operators.mesh import Mesh
from pinets.tasks.meshes.geometry.resampling import collapse

__all__ = ["MeshSet", "Standardize", "mesh_splits", "reduce_shapes", "require_finite"]


@dataclass(frozen=True, eq=False, repr=False)
class MeshSet(ArraySet):
    """Shapes of one topology in memory: float32, (N, V, 3).

    Args:
        inputs: The positions of the vertices.
        labels: Which sequence or subject each belongs to.
        classes: Their names.
        template: A mesh of the same topology.
        millimetres: How many of them the unit of the positions has.
        sequence: Frames in a sequence, where the shapes are sequences of one length, one after the other.
    """

    template: Mesh = field(kw_only=True)
    millimetres: float = field(kw_only=True)
    sequence: int | None = field(default=None, kw_only=True)

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
        require_finite(self.inputs, "the set")

    @property
    def shapes(self) -> Tensor:
        return self.inputs

    def content_checksum(self) -> str:
        """A checksum of the positions, for :func:`~pinets.engine.run.describe_data`: their labels are all alike."""
        return hashlib.sha256(self.inputs.contiguous().numpy().tobytes()).hexdigest()


def require_finite(shapes: Tensor, source: object) -> None:
    """Refuse shapes with vertices that are not finite, naming the first and its source."""
    broken = ~torch.isfinite(shapes).flatten(1).all(dim=1)
    if broken.any():
        first = int(broken.nonzero()[0])
        raise DataError(
            f"{source}: shape {first} has vertices that are not finite, as {int(broken.sum())} of {len(shapes)} have"
        )


def mesh_splits(
    train: Tensor,
    test: Tensor,
    template: Mesh,
    millimetres: float,
    *,
    validation: float | Tensor = 0.1,
    sequence: int | None = None,
) -> Splits[MeshSet]:
    """The training, validation and test shapes, from arrays of training and test shapes.

    Single frames are never held out at random: the frames before and after them, which differ little, would remain in
    the training shapes. The validation is a set of whole sequences, one drawn at random of every few
    neighbours, the same in every call; without ``sequence`` it is the end of the training shapes.

    Args:
        train: float32, (N, V, 3).
        test: float32, (M, V, 3).
        template: A mesh of the same topology.
        millimetres: How many of them the unit of the positions has.
        validation: The fraction of the training shapes to hold out, or the validation shapes.
        sequence: Frames in a sequence, where the training shapes are sequences of one length, one after the other.

    Example:
        >>> ball = Mesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2]]))
        >>> frames = torch.arange(40.0).reshape(40, 1, 1).expand(40, 3, 3)  # ten sequences of four frames
        >>> splits = mesh_splits(frames, frames, ball, 1.0, validation=0.2, sequence=4)
        >>> splits.validation.shapes[:, 0, 0].long() // 4
        tensor([2, 2, 2, 2, 8, 8, 8, 8])
    """

    def part(shapes: Tensor, name: str) -> MeshSet:
        if len(shapes) == 0:
            raise DataError(f"there are no shapes for {name}")
        labels = torch.zeros(len(shapes), dtype=torch.int64)
        return MeshSet(shapes, labels, ("shape",), template=template, millimetres=millimetres, sequence=sequence)

    if isinstance(validation, Tensor):
        return Splits(part(train, "training"), part(validation, "the validation"), part(test, "the test"))
    if not 0 < validation < 1:
        raise ValueError(f"validation must lie between 0 and 1, got {validation}")
    held = _held_out(len(train), validation, sequence)
    return Splits(part(train[~held], "training"), part(train[held], "the validation"), part(test, "the test"))


def _held_out(count: int, fraction: float, sequence: int | None) -> Tensor:
    """The mask of the training shapes that are held out for validation."""
    frames = 1 if sequence is None else sequence
    if frames < 1:
        raise ValueError(f"sequence must be at least 1, got {sequence}")
    if count % frames:
        raise DataError(f"{count} training shapes are no whole number of sequences of {frames} frames")
    groups = count // frames
    held = max(1, round(fraction * groups))
    if held >= groups:
        what = "training shapes" if sequence is None else f"training sequences of {frames} frames"
        raise DataError(f"nothing remains of {groups} {what} when {held} are held out")
    if sequence is None:
        chosen = torch.arange(groups)[-held:]
    else:
        # one of every few neighbours: where the sequences of a person follow each other, every person gives some
        edges = torch.arange(held + 1) * groups // held
        place = torch.rand(held, generator=torch.Generator().manual_seed(0))
        chosen = edges[:-1] + (place * edges.diff()).long()
    mask = torch.zeros(groups, dtype=torch.bool)
    mask[chosen] = True
    return mask.repeat_interleave(frames)


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
        # a few at a time: without a copy of all shapes in float64, whose rounding hides no constant coordinate
        parts = shapes.split(256)
        mean = torch.stack([few.double().sum(dim=0) for few in parts]).sum(dim=0) / len(shapes)
        squares = torch.stack([(few.double() - mean).square().sum(dim=0) for few in parts]).sum(dim=0)
        deviation = (squares / (len(shapes) - 1)).sqrt()
        varies = deviation > 1e-6 * deviation.max()
        return cls(mean.to(shapes.dtype), torch.where(varies, deviation, 1.0).to(shapes.dtype))

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        return (inputs - self.mean.to(inputs.device)) / self.deviation.to(inputs.device)

    def undo(self, standard: Tensor) -> Tensor:
        """Positions from standardised ones."""
        return standard * self.deviation.to(standard.device) + self.mean.to(standard.device)
