"""Statistics of a set of images: mean and covariance of their features, and the features of some of them."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock
from torch import Tensor

from pinets._files import PathLike, user_cache
from pinets._progress import track
from pinets._storage import parse_json, read_tensors, write_tensors
from pinets.tasks.generation.metrics.distances import Moments
from pinets.tasks.generation.metrics.sources import ImageSource, require_images

__all__ = ["KEPT", "Extractor", "FeatureStatistics", "cache_folder", "collect", "computed_once", "reference_statistics"]

KEPT = 10_000  # features kept, for the metrics of pairs of samples: KID, precision and recall


class Extractor(Protocol):
    """Makes features (N, ``num_features``) of images, uint8 (N, 3, H, W); its name says which features they are."""

    @property
    def name(self) -> str: ...

    @property
    def num_features(self) -> int: ...

    def __call__(self, images: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """The features of a set of images.

    Attributes:
        name: The name of the set.
        extractor: The name of what made the features.
        size: Height and width of the images.
        count: How many images.
        mean: float64, (D,).
        covariance: float64, (D, D).
        features: The features of the first images, at most :data:`KEPT`.
    """

    name: str
    extractor: str
    size: tuple[int, int]
    count: int
    mean: Tensor
    covariance: Tensor
    features: Tensor

    def save(self, path: str | Path) -> None:
        """Write to a safetensors file, which is there completely or not at all."""
        facts = {"name": self.name, "extractor": self.extractor, "size": self.size, "count": self.count}
        tensors = {"mean": self.mean, "covariance": self.covariance, "features": self.features}
        write_tensors(path, tensors, {"statistics": json.dumps(facts)})

    @classmethod
    def load(cls, path: str | Path) -> FeatureStatistics:
        try:
            content, metadata = read_tensors(path)
            facts = parse_json(metadata["statistics"], path)
            tensors = {key: content[key] for key in ("mean", "covariance", "features")}
            return cls(facts["name"], facts["extractor"], tuple(facts["size"]), facts["count"], **tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} does not hold statistics of features ({error})") from error


@torch.no_grad()
def collect(name: str, batches: Iterable[Tensor], extractor: Extractor) -> FeatureStatistics:
    """Run images through an extractor, batch by batch; neither the images nor all features are kept."""
    moments = Moments(extractor.num_features)
    kept: list[Tensor] = []
    size: tuple[int, int] | None = None
    for images in batches:
        require_images(images, f"the images of {name}")
        found = (images.shape[2], images.shape[3])
        if size not in (None, found):
            raise ValueError(f"the images of {name} must be of one size, got {size} and {found}")
        size = found
        features = extractor(images.expand(-1, 3, -1, -1)).float().cpu()  # grey is repeated in all three channels
        if not features.isfinite().all():
            raise ValueError(f"the features of {name} are not finite after {moments.count} images")
        kept.append(features[: max(KEPT - moments.count, 0)])
        moments.update(features)
    if size is None:
        raise ValueError(f"{name} has no images")
    return FeatureStatistics(
        name, extractor.name, size, moments.count, moments.mean, moments.covariance, torch.cat(kept)
    )


def reference_statistics(
    source: ImageSource, extractor: Extractor, *, count: int | None = None, batch_size: int = 50, cache_dir: PathLike
) -> FeatureStatistics:
    """The statistics of a reference set, cached on disk.

    Args:
        source: The images.
        extractor: What makes features of them.
        count: How many of the images, chosen at random but always the same; all of them if left out.
        batch_size: How many at a time.
        cache_dir: Where statistics are kept.
    """
    count = len(source) if count is None else min(count, len(source))
    key = hashlib.sha256(f"{source.fingerprint()} {extractor.name} {count}".encode()).hexdigest()[:24]
    path = Path(cache_dir) / f"statistics-{key}.safetensors"
    with computed_once(path):
        if path.exists():
            try:
                return replace(FeatureStatistics.load(path), name=source.name)  # the same images may have another name
            except ValueError as error:
                warnings.warn(f"{error}; they are computed again", stacklevel=2)
        statistics = collect(source.name, _batches(source, count, batch_size), extractor)
        statistics.save(path)
        return statistics


def computed_once(path: Path) -> FileLock:
    """A lock under which a cached file is read or made: a second process waits for the first, and reads its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_suffix(".lock"))


def cache_folder(given: str | Path | None = None) -> Path:
    """The cache of statistics and classifiers: the given folder, or ``metrics`` in the user's cache."""
    return user_cache("metrics") if given is None else Path(given).expanduser()


def _batches(source: ImageSource, count: int, batch_size: int) -> Iterator[Tensor]:
    # shuffled: sets are often sorted by class, and the first features are kept
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(0))[:count]
    for indices in track(order.split(batch_size), source.name, unit="batch"):
        yield source.read(indices)
