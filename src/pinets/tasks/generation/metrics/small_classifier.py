"""Features of a small classifier trained on the reference set itself, for quick runs.

Training it takes a minute, and its features two thousand times fewer multiplications than Inception's. Distances
between these features rank generators of one data set. They are not FID and do not compare with it.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._storage import read_tensors, write_tensors
from pinets.engine.randomness import seeded
from pinets.tasks.generation.metrics.sources import ImageSource
from pinets.tasks.generation.metrics.statistics import computed_once

__all__ = ["SmallFeatures", "require_labels", "small_features", "train_small"]

_SIDE = 32  # larger images are averaged down to it
_VERSION = 1  # in the names of cached weights: raise it when the network or its training changes


class SmallFeatures(nn.Module):
    """Three convolutions with stride 2, averaged over the image.

    Args:
        classes: How many it tells apart while it is trained.

    Example:
        >>> SmallFeatures(10).eval()(torch.zeros(2, 3, 28, 28, dtype=torch.uint8)).shape
        torch.Size([2, 128])
    """

    num_features = 128

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = (3, 32, 64, self.num_features)
        self.body = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, 2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
                for a, b in pairwise(widths)
            )
        )
        self.classify = nn.Linear(self.num_features, classes)
        self.name = "small"

    def forward(self, images: Tensor) -> Tensor:
        """Features of images, uint8 (N, 3, H, W)."""
        x = images.to(self.classify.weight) / 127.5 - 1
        if max(x.shape[2:]) > _SIDE:
            x = F.adaptive_avg_pool2d(x, _SIDE)
        return self.body(x.contiguous(memory_format=torch.channels_last)).mean(dim=(2, 3))


def train_small(
    source: ImageSource, labels: Tensor, *, steps: int = 800, batch_size: int = 128, seed: int = 0
) -> SmallFeatures:
    """Train the classifier; the same images, seed and number of threads give the same weights.

    Args:
        source: The images.
        labels: The class of each.
        steps: Steps of AdamW, with a learning rate that rises and falls in one cycle.
        batch_size: Images per step.
        seed: Seed of the weights and the order.
    """
    generator = torch.Generator().manual_seed(seed)
    with seeded(seed):
        network = SmallFeatures(int(labels.max()) + 1)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.randint(len(source), (batch_size,), generator=generator)
            images = source.read(chosen).expand(-1, 3, -1, -1)
            loss = F.cross_entropy(network.classify(network(images)), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval().requires_grad_(False)


def require_labels(source: ImageSource) -> Tensor:
    """The labels of a set, which the classifier needs."""
    labels: Tensor | None = getattr(source, "labels", None)
    if labels is None or len(labels.unique()) < 2:
        raise ValueError(
            f"fid_small trains a classifier, and {source.name} has no labels of two or more classes; choose another "
            "metric or validation_metric, such as fid2k"
        )
    return labels


def small_features(source: ImageSource, cache_dir: Path) -> SmallFeatures:
    """The classifier of a set, cached on disk in a folder."""
    labels = require_labels(source)
    name = f"small-v{_VERSION}-{source.fingerprint()[:24]}"
    path = cache_dir / f"{name}.safetensors"
    with computed_once(path):
        network = _load(path, SmallFeatures(int(labels.max()) + 1))
        if network is None:
            network = train_small(source, labels)
            write_tensors(path, network.state_dict())
    network.name = name
    return network


def _load(path: Path, network: SmallFeatures) -> SmallFeatures | None:
    """The cached weights, if there are any and they can be read."""
    if not path.exists():
        return None
    try:
        network.load_state_dict(read_tensors(path)[0])
    except (ValueError, RuntimeError) as error:
        warnings.warn(f"{path} cannot be used ({error}); its classifier is trained again", stacklevel=3)
        return None
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval().requires_grad_(False)
