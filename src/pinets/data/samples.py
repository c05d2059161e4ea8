"""Datasets: inputs that are read by index, a label for each, and the names of the classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from pinets.data.errors import DataError

__all__ = ["ArraySet", "ClipSet", "ImageSet", "SampleSet", "Splits", "check_labels", "fingerprint", "read_fixed"]

_LOOKED_AT = 64  # samples that go into a fingerprint


class SampleSet(Protocol):
    """A dataset that :class:`pinets.data.Batches` can read.

    ``draws`` is the number of uniform random numbers that reading one sample takes, for a random crop while decoding,
    say. They are passed to :meth:`read`, one row per index, so that reading is a pure function of its arguments.
    """

    @property
    def labels(self) -> Tensor: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def draws(self) -> int: ...

    def __len__(self) -> int: ...

    def read(self, indices: Tensor, uniforms: Tensor) -> Tensor: ...

    def shuffled(self, generator: torch.Generator) -> Tensor: ...

    def subset(self, indices: Tensor) -> Self: ...


Samples = TypeVar("Samples", bound=SampleSet)


@dataclass(frozen=True)
class Splits(Generic[Samples]):
    """The three parts of a dataset: train on the first, choose on the second, use the third once."""

    train: Samples
    validation: Samples
    test: Samples


@dataclass(frozen=True, eq=False)
class ArraySet:
    """A dataset in memory.

    Args:
        inputs: One sample per row.
        labels: The class of each row, int64.
        classes: The names of the classes.

    Example:
        >>> few = ArraySet(torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 0]), ("cat", "dog"))
        >>> few.read(torch.tensor([2, 0]), torch.empty(2, 0))
        tensor([[4., 5.], [0., 1.]])
        >>> few.subset(torch.tensor([1]))
        ArraySet(1 x (2,) float32, 2 classes)
    """

    inputs: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    draws = 0

    def __post_init__(self) -> None:
        for name in ("inputs", "labels"):
            if not isinstance(getattr(self, name), Tensor):
                raise DataError(f"{name} must be a torch.Tensor, got {type(getattr(self, name)).__name__}")
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise DataError(f"labels must be a vector of int64, got {tuple(self.labels.shape)} {self.labels.dtype}")
        if len(self.inputs) != len(self.labels):
            raise DataError(f"there are {len(self.inputs)} inputs and {len(self.labels)} labels: one label per input")
        check_labels(self.labels, len(self.classes), "labels")

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, indices: Tensor, uniforms: Tensor) -> Tensor:
        return self.inputs[indices]

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    def subset(self, indices: Tensor) -> Self:
        return replace(self, inputs=self.inputs[indices], labels=self.labels[indices])

    def stored(self, index: int) -> bytes:
        """A sample's bytes; empty for computed numbers, which another version of a library may round differently."""
        return b"" if self.inputs.is_floating_point() else self.inputs[index].contiguous().numpy().tobytes()

    def __repr__(self) -> str:
        dtype = str(self.inputs.dtype).removeprefix("torch.")
        shape = tuple(self.inputs.shape[1:])
        return f"{type(self).__name__}({len(self)} x {shape} {dtype}, {len(self.classes)} classes)"


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(ArraySet):
    """Decoded images in memory: uint8, (N, C, H, W)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs.dtype != torch.uint8 or self.inputs.ndim != 4:
            raise DataError(f"images must be uint8 (N, C, H, W), got {tuple(self.inputs.shape)} {self.inputs.dtype}")

    @property
    def images(self) -> Tensor:
        return self.inputs


@dataclass(frozen=True, eq=False, repr=False)
class ClipSet(ArraySet):
    """Sound clips of one length in memory: int16, (N, T), with recordings of noise to mix in, if there are any."""

    noise: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs.dtype != torch.int16 or self.inputs.ndim != 2:
            raise DataError(f"clips must be int16 (N, T), got {tuple(self.inputs.shape)} {self.inputs.dtype}")

    @property
    def clips(self) -> Tensor:
        return self.inputs


def read_fixed(samples: SampleSet, indices: Tensor) -> Tensor:
    """Read samples without drawing random numbers: all of them are 0, so the result is always the same."""
    return samples.read(indices, torch.zeros(len(indices), samples.draws))


def check_labels(labels: Tensor, classes: int, source: object) -> None:
    """Refuse labels that are not the number of a class; the error names the record."""
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        record = int(wrong.nonzero()[0])
        raise DataError(
            f"{source}: record {record} has label {int(labels[record])}, but labels go from 0 to {classes - 1}"
        )


def fingerprint(samples: SampleSet) -> str:
    """A checksum that tells one dataset from another: the names of the classes, all labels, and a few samples.

    Only sets with a method ``stored(index)``, which returns the bytes of a sample, are told apart by samples too.

    Example:
        >>> first = ArraySet(torch.tensor([[1], [2]]), torch.tensor([0, 1]), ("cat", "dog"))
        >>> swapped = ArraySet(torch.tensor([[2], [1]]), torch.tensor([0, 1]), ("cat", "dog"))
        >>> fingerprint(first) == fingerprint(swapped)
        False
    """
    digest = hashlib.sha256("\0".join(samples.classes).encode())
    digest.update(samples.labels.numpy().tobytes())
    stored = getattr(samples, "stored", lambda _: b"")
    for index in torch.linspace(0, len(samples) - 1, min(_LOOKED_AT, len(samples))).long().tolist():
        digest.update(stored(index))
    return digest.hexdigest()
