"""Recipes for classifiers of images and of speech."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets.data import (
    DATA_SETS,
    Compose,
    ImageSet,
    Normalize,
    RandomCrop,
    RandomFlip,
    SampleSet,
    Splits,
    Transform,
    load,
    precompute,
    speech_features,
    stratified_sample,
)
from pinets.recipes.kinds.model import Model
from pinets.recipes.kinds.recipe import Recipe, evaluation_batches
from pinets.train.classification import Classification
from pinets.train.layout import put_channels_last
from pinets.train.loop import Plan
from pinets.train.optimizers import SGD, Adam, AdamW
from pinets.train.randomness import seed_everything, seed_processes_apart
from pinets.train.ranges import require_range
from pinets.train.schedules import Constant, Exponential, LinearDecay, MultiStep, OneCycle, Plateau, Warmup
from pinets.train.task import Split

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["ClassificationRecipe", "Images", "Inputs", "Model", "Speech"]

# of ImageNet's training images, as everybody uses them
_IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_EVALUATION_BATCH = 512  # over all processes; only speed and memory depend on it


@dataclass(frozen=True)
class Inputs:
    """What a recipe's data comes to: the three parts, and what is done to a batch of each."""

    splits: Splits[SampleSet]
    train: Transform
    evaluation: Transform
    prefetch: int = 0


@dataclass(frozen=True)
class Images:
    """A set of labelled images.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        classes: How many it has.
        validation: The share of the training images held out for validation.
        crop: Pixels of padding for random crops; 0 for none. Sets decoded as they are read crop there instead.
        flip: Whether to mirror images at random.
        limit: Train on this many images only, chosen evenly over the classes.
        size: Height and width of the images, where the set can have several; what the set itself takes if left out.
    """

    name: str
    classes: int
    validation: float = 0.1
    crop: int = 4
    flip: bool = True
    limit: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        require_range("validation", self.validation, above=0, below=1)
        require_range("crop", self.crop, at_least=0)
        _check_counts(self.classes, self.limit)
        if self.size is not None:
            require_range("size", self.size, at_least=1)
            if not self._takes("size"):
                raise ValueError(f"the images of {self.name} have a size of their own, which cannot be changed")

    def _takes(self, option: str) -> bool:
        return self.name in DATA_SETS and option in DATA_SETS[self.name].options

    def load(self, data_dir: str | Path | None, *, download: bool = True) -> Inputs:
        options: dict[str, Any] = {} if self.size is None else {"size": self.size}
        splits = load(self.name, data_dir, download=download, validation=self.validation, **options)
        in_memory = isinstance(splits.train, ImageSet)
        if self.size is None and not in_memory and DATA_SETS[self.name].folders == (".",):  # images of one's own
            size = splits.train.crop.size
            told = f"data.size is not set: the images of {self.name} become {size}x{size}"
            warnings.warn(f"{told}; data.size=32 makes them 32x32", stacklevel=2)
        normalize = Normalize.of(splits.train) if in_memory else _IMAGENET
        # images that are decoded as they are read are cropped there
        augment: list[Transform] = [RandomCrop(self.crop)] if self.crop and in_memory else []
        if self.flip:
            augment.append(RandomFlip())
        return Inputs(
            _limited(splits, self.limit), Compose(*augment, normalize), normalize, prefetch=0 if in_memory else 4
        )


@dataclass(frozen=True)
class Speech:
    """Spoken words as 32x32 log-mel images; the set has its own validation and test speakers.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        classes: How many words it has.
        augment: Whether to vary loudness, speed, stretch and place, and mix in noise.
        limit: Train on this many clips only, chosen evenly over the words.
    """

    name: str
    classes: int
    augment: bool = True
    limit: int | None = None

    def __post_init__(self) -> None:
        _check_counts(self.classes, self.limit)

    def load(self, data_dir: str | Path | None) -> Inputs:
        splits = _limited(load(self.name, data_dir), self.limit)
        features, nothing = speech_features(), Compose()
        # the features of clips that never change are computed once
        held_out = [precompute(part, features) for part in (splits.validation, splits.test)]
        if self.augment:
            augmented = speech_features(augment=True, noise=splits.train.noise)
            return Inputs(Splits(splits.train, *held_out), augmented, nothing)
        return Inputs(Splits(precompute(splits.train, features), *held_out), nothing, nothing)


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(Recipe):
    """All values of training one classifier.

    Args:
        model: What to train.
        data: On what.
        optimizer: With its learning rate.
        schedule: Of the learning rate.
        label_smoothing: Share of the target spread over all classes.
        clip: Largest norm of the gradient; longer ones are shortened. ``None`` for no limit.
        top_k: The accuracies to report.
        channels_last: The layout of images in memory that is faster for convolutions.
    """

    model: Model
    data: Images | Speech
    optimizer: SGD | Adam | AdamW
    schedule: MultiStep | Plateau | Warmup | OneCycle | LinearDecay | Exponential | Constant
    label_smoothing: float = 0.0
    clip: float | None = None
    top_k: tuple[int, ...] = (1,)
    channels_last: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("label_smoothing", self.label_smoothing, at_least=0, at_most=1)
        if self.clip is not None:
            require_range("clip", self.clip, above=0)  # torch turns the gradient around for a negative one
        if not self.top_k:
            raise ValueError("top_k must name at least one accuracy, as in top_k=1,5; got none")
        for k in self.top_k:
            if not 1 <= k <= self.data.classes:
                raise ValueError(f"top_k must be at least 1 and at most all {self.data.classes} classes, got {k}")

    def networks(self) -> dict[str, nn.Module]:
        return {"model": self.model.build(self.data.classes)}

    def prepare(self, data_dir: str | Path | None, accelerator: Accelerator) -> tuple[Classification, Plan]:
        inputs = self.data.load(data_dir)
        classes = len(inputs.splits.train.classes)
        if classes != self.data.classes:
            raise ValueError(f"data.classes is {self.data.classes}, but {self.data.name} has {classes} classes")
        batches = self.training_batches(inputs.splits.train, inputs.train, accelerator, prefetch=inputs.prefetch)
        steps_per_epoch = self.updates(batches)
        seed_everything(self.seed, accelerator.device)
        network = self.networks()["model"]
        _require_outputs(network, inputs, classes)
        if self.channels_last:
            put_channels_last(network, accelerator.device)
        optimizer = self.optimizer.build(network.parameters())
        schedule = self.schedule.attach(optimizer, steps_per_epoch=steps_per_epoch, epochs=self.epochs)

        def samples(split: Split) -> Iterable[tuple[Tensor, Tensor]]:
            return evaluation_batches(
                inputs.splits, split, _EVALUATION_BATCH, inputs.evaluation, accelerator, prefetch=inputs.prefetch
            )

        task = Classification(
            network,
            optimizer,
            schedule,
            batches=batches,
            samples=samples,
            accelerator=accelerator,
            label_smoothing=self.label_smoothing,
            clip=self.clip,
            top_k=self.top_k,
        )
        seed_processes_apart(self.seed, accelerator)
        return task, self.plan(steps_per_epoch)


def _require_outputs(network: nn.Module, inputs: Inputs, classes: int) -> None:
    """Refuse a network that does not take these inputs or give a score to each class, before anything is trained."""
    samples = inputs.splits.validation
    first = inputs.evaluation(samples.read(torch.tensor([0]), torch.zeros(1, samples.draws)))
    try:
        with evaluating(network), torch.no_grad():
            found = tuple(network(first).shape)
    except (ValueError, RuntimeError) as error:
        shape = tuple(first.shape[1:])
        raise ValueError(f"model: the network does not take the data's inputs, of shape {shape}: {error}") from error
    if found != (1, classes):
        raise ValueError(
            f"model: the network gives shape {found} for one input, and {classes} classes need (1, {classes})"
        )


def _check_counts(classes: int, limit: int | None) -> None:
    require_range("classes", classes, at_least=1)
    if limit is not None and limit < classes:
        raise ValueError(f"limit must be at least 1 for each of the {classes} classes, got {limit}")


def _limited(splits: Splits, limit: int | None) -> Splits:
    if limit is None or limit >= len(splits.train):
        return splits
    chosen = stratified_sample(splits.train.labels, limit)
    return Splits(splits.train.subset(chosen), splits.validation, splits.test)
