"""Measuring a generator during its training, and in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from pinets.data.errors import MissingDataError
from pinets.engine.task import Split
from pinets.tasks.generation.metrics import evaluate, get_protocol, protocol_names
from pinets.tasks.generation.metrics.inception_weights import OFFICIAL, load_inception
from pinets.tasks.generation.metrics.protocols import Score, SmallDistance
from pinets.tasks.generation.metrics.small_classifier import require_labels
from pinets.tasks.generation.metrics.sources import ImageSource
from pinets.tasks.generation.task import EVALUATION_SEED, Sampler

__all__ = ["Measurement"]


class Measurement:
    """Measures a generator by the protocols of a split.

    Missing labels or weights are an error on construction, not after hours of training. An Inception score beside
    another protocol is left out instead: most files of weights lack the last layer that it needs.

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
                require_labels(reference(name))
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
            torch.manual_seed(EVALUATION_SEED)  # every protocol sees the same images
            result = evaluate(sample, self._reference(name), name, device=self._device, data_dir=self._data_dir)
            values |= result.values
            told.append(result.conditions)
        if told:
            self.protocols[split] = "; ".join(told)
        return values
