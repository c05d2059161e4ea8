"""Measure images that are in a folder already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets.metrics.generation.evaluation import GenerationResult, evaluate
from pinets.metrics.generation.protocols import Distances, get_protocol
from pinets.metrics.generation.sources import FolderSource, find_source

__all__ = ["evaluate_folder"]


def evaluate_folder(
    folder: str | Path,
    reference: str | None,
    protocol: str,
    *,
    samples: int | None = None,
    pad: int = 0,
    data_dir: str | Path | None = None,
    **options: Any,
) -> GenerationResult:
    """Compare the images of a folder with those of a data set or of another folder.

    Args:
        folder: Holds the images, all of one size and mode.
        reference: A data set by its name, or a folder; the Inception score needs none.
        protocol: One of :data:`pinets.metrics.generation.PROTOCOLS`.
        samples: Another number of images than the protocol's.
        pad: Black pixels to add around the images of a data set.
        data_dir: Where data sets and the weights of Inception are.
        options: Others of :func:`evaluate`.
    """
    plan = get_protocol(protocol)
    images = FolderSource(folder)
    count = plan.samples if samples is None else samples
    if len(images) < count:
        raise ValueError(
            f"{protocol} takes {count:,} images, but {folder} has {len(images):,}; "
            "another number (--samples) is possible, and is named in the result"
        )
    source = None
    if isinstance(plan, Distances) and reference is not None:
        source = find_source(reference, plan.split, data_dir, pad=pad)
    chosen = iter(torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).tolist())

    def sample(n: int) -> Tensor:
        return images.read(torch.tensor([next(chosen) for _ in range(n)]))

    return evaluate(sample, source, protocol, samples=samples, data_dir=data_dir, **options)
