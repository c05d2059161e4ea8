"""Measure a generator by a protocol that has a name, and say by which."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._progress import track
from pinets.data.errors import MissingDataError
from pinets.tasks.generation.metrics.distances import (
    InceptionScore,
    frechet_distance,
    kernel_distance,
    precision_recall,
)
from pinets.tasks.generation.metrics.inception_weights import OFFICIAL, load_inception
from pinets.tasks.generation.metrics.protocols import Distances, Score, SmallDistance, get_protocol
from pinets.tasks.generation.metrics.small_classifier import small_features
from pinets.tasks.generation.metrics.sources import FolderSource, ImageSource, find_source, require_images
from pinets.tasks.generation.metrics.statistics import (
    Extractor,
    FeatureStatistics,
    cache_folder,
    collect,
    reference_statistics,
)

__all__ = ["GenerationResult", "Sample", "evaluate", "evaluate_folder"]

Sample = Callable[[int], Tensor]  # from a number to that many images, uint8 (N, C, H, W)
Reference = ImageSource | FeatureStatistics


@dataclass(frozen=True)
class GenerationResult:
    """The values of a protocol, with the conditions they hold under.

    Attributes:
        protocol: The name of the protocol.
        samples: How many images were generated.
        reference: What they were compared with; None for a score.
        reference_images: How many images of it.
        features: Whose features were compared.
        values: The metrics by name.
    """

    protocol: str
    samples: int
    reference: str | None
    reference_images: int | None
    features: str
    values: dict[str, float]

    @property
    def conditions(self) -> str:
        """Protocol, samples, reference and features in one line."""
        against = f" against {self.reference_images:,} images of {self.reference}" if self.reference else ""
        remark = "; not comparable with FID" if "fid_small" in self.values else ""
        return f"{self.protocol}: {self.samples:,} samples{against}, features {self.features}{remark}"

    def __str__(self) -> str:
        values = ", ".join(f"{name} {value:.4f}" for name, value in self.values.items())
        return f"{values} ({self.conditions})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    sample: Sample,
    reference: Reference | None,
    protocol: str,
    *,
    samples: int | None = None,
    extractor: Extractor | None = None,
    batch_size: int = 50,
    device: torch.device | str = "cpu",
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> GenerationResult:
    """Measure a generator.

    Args:
        sample: Makes that many images, uint8 (N, C, H, W); its network must be in evaluation mode.
        reference: What to compare with: images, or statistics of them. The Inception score needs none.
        protocol: One of :data:`pinets.tasks.generation.metrics.PROTOCOLS`.
        samples: Another number of samples than the protocol's.
        extractor: Another network than the protocol's; its name is in the result.
        batch_size: How many images at a time.
        device: Where the protocol's network runs.
        data_dir: Where the weights of Inception are looked for, as data sets are.
        cache_dir: Where statistics of references are kept; the user's cache if left out.
    """
    plan = get_protocol(protocol)
    count = plan.samples if samples is None else samples
    if count < 2:
        raise ValueError(f"samples must be at least 2, got {count}")
    name = protocol if count == plan.samples else f"{protocol} with {count} samples"
    if isinstance(plan, Score):
        network = load_inception(data_dir=data_dir).to(device) if extractor is None else extractor
        values = _inception_score(plan, _generate(sample, count, batch_size), count, network)
        return GenerationResult(name, count, None, None, network.name, values)
    if reference is None:
        raise ValueError(f"{protocol} compares samples with images: it needs a reference")
    folder = cache_folder(cache_dir)
    if extractor is None and not isinstance(plan, SmallDistance):
        extractor = load_inception(data_dir=data_dir).to(device)
    elif extractor is None:
        if isinstance(reference, FeatureStatistics):
            raise ValueError(f"{plan.name} needs the reference images and their labels, got statistics")
        extractor = small_features(reference, folder).to(device)
    if isinstance(reference, FeatureStatistics):
        real = reference
    else:
        real = reference_statistics(reference, extractor, count=plan.reference, batch_size=batch_size, cache_dir=folder)
    if real.extractor != extractor.name:
        raise ValueError(f"the statistics of {real.name} are of the features {real.extractor}, not of {extractor.name}")
    _warn_of_few(extractor, samples=count, reference=real.count)
    fake = collect("the samples", _generate(sample, count, batch_size, real), extractor)
    distance = frechet_distance(real.mean, real.covariance, fake.mean, fake.covariance)
    if isinstance(plan, SmallDistance):
        values = {"fid_small": distance}
    else:
        kid, kid_std = kernel_distance(real.features, fake.features)
        precision, recall = precision_recall(real.features, fake.features)
        values = {"fid": distance, "kid": kid, "kid_std": kid_std, "precision": precision, "recall": recall}
    return GenerationResult(name, count, real.name, real.count, extractor.name, values)


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
        protocol: One of :data:`pinets.tasks.generation.metrics.PROTOCOLS`.
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
        first = torch.tensor([0])  # now: the features of a reference may take hours
        _require_size(images.read(first), source.name, source.read(first).shape[2:])
    chosen = iter(torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).tolist())

    def sample(n: int) -> Tensor:
        return images.read(torch.tensor([next(chosen) for _ in range(n)]))

    return evaluate(sample, source, protocol, samples=samples, data_dir=data_dir, **options)


@torch.no_grad()
def _inception_score(plan: Score, batches: Iterable[Tensor], count: int, network: Any) -> dict[str, float]:
    if getattr(network, "fc", network) is None:  # other extractors need not have an attribute fc
        raise MissingDataError(
            "the Inception score needs the network's last layer (fc), which these weights do not have; "
            f"put {OFFICIAL} into inception/ of the data folder"
        )
    score = InceptionScore(count, plan.splits)
    for images in batches:
        score.update(network.log_probabilities(network(images.expand(-1, 3, -1, -1))))
    mean, std = score.compute()
    return {"inception_score": mean, "inception_score_std": std}


def _generate(sample: Sample, count: int, batch_size: int, real: FeatureStatistics | None = None) -> Iterator[Tensor]:
    """Samples; where there are real images, of their size."""
    for first in track(range(0, count, batch_size), "samples", unit="batch"):
        wanted = min(batch_size, count - first)
        images = sample(wanted)
        require_images(images, "samples")
        if len(images) != wanted:
            raise ValueError(f"asked for {wanted} samples after {first}, got {len(images)}; {count} are needed")
        if real is not None:
            _require_size(images, real.name, real.size)
        yield images


def _require_size(images: Tensor, name: str, size: tuple[int, ...]) -> None:
    if images.shape[2:] != size:
        raise ValueError(
            f"samples are {images.shape[2]}x{images.shape[3]}, but the images of {name} are {size[0]}x{size[1]}: "
            "bring them to one size first"
        )


def _warn_of_few(extractor: Extractor, **counts: int) -> None:
    for what, count in counts.items():
        if count < extractor.num_features:
            warnings.warn(
                f"{count} images ({what}) are fewer than the {extractor.num_features} features: their covariance has "
                "not full rank, and the Fréchet distance is too large by an unknown amount",
                stacklevel=3,
            )
