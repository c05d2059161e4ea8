"""The protocols a generator is measured by: one or several, and that they have what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from pinets.data.errors import MissingDataError
from pinets.metrics.generation import evaluate, get_protocol
from pinets.metrics.generation.protocols import Score, SmallDistance
from pinets.metrics.generation.sources import ImageSource
from pinets.metrics.inception_weights import OFFICIAL, load_inception
from pinets.train.generation import EVALUATION_SEED, Sampler
from pinets.train.task import Split

__all__ = ["Measurement", "protocol_names"]


def protocol_names(metric: str | None) -> tuple[str, ...]:
    """The protocols that a recipe names, refusing those that are unknown or go under the same names.

    >>> protocol_names("fid50k_train, is50k_10splits")
    ('fid50k_train', 'is50k_10splits')
    >>> protocol_names("fid5k,fid2k")
    Traceback (most recent call last):
    ValueError: fid5k,fid2k: the values of these protocols have the same names; choose one of them
    """
    names = () if metric is None else tuple(name.strip() for name in metric.split(","))
    kinds = {type(get_protocol(name)) for name in names}
    if len(kinds) < len(names):
        raise ValueError(f"{metric}: the values of these protocols have the same names; choose one of them")
    return names


class Measurement:
    """Measures a generator by the protocols of a split.

    What a protocol lacks is told here, and not after hours of training. The Inception score beside another protocol is
    left out instead: few files of weights have the last layer that it needs.

    Args:
        metrics: The protocols of each split, as :func:`protocol_names` reads them.
        reference: Given a protocol, what it compares with.
        device: Where the networks of the protocols run.
        data_dir: Where the weights of Inception are looked for, as data sets are.

    Attributes:
        protocols: How a split was measured, once it was.
    """

    def __init__(
        self,
        metrics: Mapping[Split, str | None],
        *,
        reference: Callable[[str], ImageSource],
        device: torch.device,
        data_dir: str | Path | None,
    ) -> None:
        self.protocols: dict[Split, str] = {}
        self._names = {split: protocol_names(metric) for split, metric in metrics.items()}
        self._reference, self._device, self._data_dir = reference, device, data_dir
        names = dict.fromkeys(name for names in self._names.values() for name in names)
        for name in names:
            if isinstance(get_protocol(name), SmallDistance):
                _require_labels(name, reference(name))
        self._left_out = self._scores_to_leave_out([*names])

    def _scores_to_leave_out(self, names: Sequence[str]) -> dict[str, str]:
        """Why, for each Inception score that cannot be measured."""
        if all(isinstance(get_protocol(name), SmallDistance) for name in names):
            return {}
        if load_inception(data_dir=self._data_dir).fc is not None:
            return {}
        reason = f"the weights of Inception have no last layer (fc); put {OFFICIAL} into inception/ of the data folder"
        scores = [name for name in names if isinstance(get_protocol(name), Score)]
        for alone in self._names.values():
            if len(alone) == 1 and alone[0] in scores:
                raise MissingDataError(f"{alone[0]} cannot be measured: {reason}")
        return dict.fromkeys(scores, reason)

    def __call__(self, sample: Sampler, split: Split) -> dict[str, float]:
        """The values of all protocols of a split; sets torch's seed, which the caller is to restore."""
        values: dict[str, float] = {}
        told = []
        for name in self._names[split]:
            if name in self._left_out:
                told.append(f"{name} not measured: {self._left_out[name]}")
                continue
            torch.manual_seed(EVALUATION_SEED)  # the same images for each, as if it were the only one
            result = evaluate(sample, self._reference(name), name, device=self._device, data_dir=self._data_dir)
            values |= result.values
            told.append(result.conditions)
        if told:
            self.protocols[split] = "; ".join(told)
        return values


def _require_labels(protocol: str, images: ImageSource) -> None:
    labels = getattr(images, "labels", None)
    if labels is None or len(labels.unique()) < 2:
        raise ValueError(
            f"{protocol} trains a classifier, and {images.name} has no labels of two or more classes; "
            "choose another metric or validation_metric, such as fid2k"
        )
