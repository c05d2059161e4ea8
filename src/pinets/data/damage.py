"""Images that cannot be decoded are counted, reported and replaced: one bad file in millions does not end a run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError

__all__ = ["Damage", "ForgivingSet"]

_TOLD = 10  # images that are named; further ones are only counted


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


@dataclass(eq=False)
class Damage:
    """The images that could not be decoded so far, each counted once; safe to use from several threads.

    Args:
        strict: Whether the first one is an error.
        tell: Called with a line for each of the first few.

    Example:
        >>> damage = Damage(tell=print)
        >>> for _ in range(2):
        ...     damage.note(DataError("a.jpg: it is empty"))
        cannot be read: a.jpg: it is empty
        >>> damage.count
        1
    """

    strict: bool = False
    tell: Callable[[str], None] = _to_stderr
    reasons: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return len(self.reasons)

    def note(self, error: DataError) -> None:
        """Count the file that the error names; raise the error if strict."""
        if self.strict:
            raise error
        reason = str(error)
        with self._lock:
            if reason in self.reasons:
                return
            self.reasons.add(reason)
            if self.count <= _TOLD:
                self.tell(f"cannot be read: {reason}")
            if self.count == _TOLD:
                self.tell("what else cannot be read is counted, and not named any more")


@dataclass(frozen=True, eq=False)
class ForgivingSet:
    """Encoded images; one that cannot be decoded is replaced by the next of its class that can.

    If no image of the class can be decoded, the replacement is plain grey.

    Args:
        samples: The images.
        damage: Counts the images that cannot be decoded.
    """

    samples: EncodedSet
    damage: Damage = field(default_factory=Damage)

    @property
    def labels(self) -> Tensor:
        return self.samples.labels

    @property
    def classes(self) -> tuple[str, ...]:
        return self.samples.classes

    @property
    def draws(self) -> int:
        return self.samples.draws

    def __len__(self) -> int:
        return len(self.samples)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return self.samples.shuffled(generator)

    def subset(self, indices: Tensor) -> Self:
        return replace(self, samples=self.samples.subset(indices))

    def read(self, indices: Tensor, uniforms: Tensor) -> Tensor:
        try:
            return self.samples.read(indices, uniforms)
        except DataError:  # rare, so the images are read one by one only now
            images = [self._read_one(index, numbers) for index, numbers in zip(indices, uniforms, strict=True)]
            return torch.stack(images)

    def _read_one(self, index: Tensor, uniforms: Tensor) -> Tensor:
        same = (self.labels == self.labels[index]).nonzero().flatten()
        following = torch.cat([same[same >= index], same[same < index]])
        for candidate in following:
            try:
                return self.samples.read(candidate[None], uniforms[None])[0]
            except DataError as error:
                self.damage.note(error)
        size = self.samples.crop.size
        return torch.full((self.samples.channels, size, size), 127, dtype=torch.uint8)

    def __repr__(self) -> str:
        return f"ForgivingSet({self.samples!r}, {self.damage.count} cannot be read)"
