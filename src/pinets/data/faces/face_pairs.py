"""Pairs of faces to verify."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pinets.data.errors import DataError
from pinets.data.samples import SampleSet

__all__ = ["FacePairs"]


@dataclass(frozen=True, eq=False)
class FacePairs:
    """Pairs of faces, each of one person or of two.

    Attributes:
        faces: All images.
        pairs: Which two images each pair consists of, int64 (P, 2).
        same: Whether they show one person, (P,).
    """

    faces: SampleSet
    pairs: Tensor
    same: Tensor

    def __post_init__(self) -> None:
        if self.pairs.shape != (len(self.same), 2):
            raise DataError(
                f"there must be one answer for each pair, got {tuple(self.pairs.shape)} and {len(self.same)}"
            )

    def __len__(self) -> int:
        return len(self.same)
