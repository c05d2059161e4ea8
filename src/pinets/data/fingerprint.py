"""Tells one data set from another, without reading all of it."""

from __future__ import annotations

import hashlib

import torch

from pinets.data.encoded import EncodedSet
from pinets.data.samples import ArraySet, SampleSet

__all__ = ["fingerprint"]

_SAMPLES = 64  # that are looked at


def fingerprint(samples: SampleSet) -> str:
    """A checksum of the names of the classes, of all labels, and of a few samples as they are stored.

    Decoded or computed values are left out, since another version of a library may round them differently.

    Example:
        >>> first = ArraySet(torch.tensor([[1], [2]]), torch.tensor([0, 1]), ("cat", "dog"))
        >>> swapped = ArraySet(torch.tensor([[2], [1]]), torch.tensor([0, 1]), ("cat", "dog"))
        >>> fingerprint(first) == fingerprint(swapped)
        False
    """
    digest = hashlib.sha256("\0".join(samples.classes).encode())
    digest.update(samples.labels.numpy().tobytes())
    for index in torch.linspace(0, len(samples) - 1, min(_SAMPLES, len(samples))).long().tolist():
        digest.update(_stored(samples, index))
    return digest.hexdigest()


def _stored(samples: SampleSet, index: int) -> bytes:
    if isinstance(samples, EncodedSet):
        return samples.encoded(index)[1]
    if isinstance(samples, ArraySet) and not samples.inputs.is_floating_point():
        return samples.inputs[index].contiguous().numpy().tobytes()
    return b""
