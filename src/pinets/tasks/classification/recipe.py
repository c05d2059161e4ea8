"""Recipes for classifiers of images and of speech."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from pinets.data import (
    DATA_SETS,
    Compose,
    ImageSet,
    Normalize,
    RandomColour,
    RandomCrop,
    RandomErase,
    RandomFlip,
    RandomGrain,
    RandomLight,
    RandomSimilarity,
    SampleSet,
    Splits,
    Transform,
    load,
    precompute,
    stratified_sample,
)
from pinets.data.samples import read_fixed
from pinets.engine.loop import Plan
from pinets.engine.model import Model, put_channels_last
from pinets.engine.optimization import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Exponential,
    LinearDecay,
    MultiStep,
    Muon,
    OneCycle,
    Plateau,
    Warmup,
    require_range,
)
from pinets.engine.randomness import seed_everything, seed_processes_apart
from pinets.engine.recipe import Findings, InputInfo, Recipe, evaluation_batches, output_shape
from pinets.engine.task import Split
from pinets.engine.values import to_json
from pinets.tasks.classification.range_penalty import Damage, RangePenalty, matching_layers
from pinets.tasks.classification.robustness import Certified, Robust
from pinets.tasks.classification.speech.augment import speech_features
from pinets.tasks.classification.task import Classification
from pinets.tasks.classification.teacher import Teacher

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = [
    "Certified",
    "ClassificationRecipe",
    "Images",
    "Inputs",
    "Model",
    "RangePenalty",
    "Robust",
    "Speech",
    "Teacher",
]

# mean and deviation of ImageNet's training images by the number of channels; for grey images their average
_IMAGENET = {3: Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), 1: Normalize((0.449,), (0.226,))}
_EVALUATION_BATCH = 512  # over all processes; only speed and memory depend on it


@dataclass(frozen=True)
class Inputs:
    """A loaded dataset: its three parts, and the transforms of batches for training and for evaluation."""

    splits: Splits[Any]
    augment: Transform
    evaluation: Transform
    unaugmented: Transform | None = None  # of training samples; as in evaluation if left out
    prefetch: int = 0
    preprocessing: Any = None  # the evaluation's, as plain data

    def describe(self) -> InputInfo:
        """Shape, classes and preprocessing."""
        return InputInfo(tuple(self.first().shape[1:]), tuple(self.splits.train.classes), self.preprocessing)

    @property
    def train(self) -> SampleSet:
        """The training samples."""
        return self.splits.train

    def first(self) -> Tensor:
        """The first validation sample as the network sees it, a batch of one."""
        return self.evaluation(read_fixed(self.splits.validation, torch.tensor([0])))

    def read(self, split: Literal["train", "validation", "test"], count: int) -> tuple[Tensor, Tensor]:
        """The first samples of a split as the network sees them in evaluation, and their labels."""
        samples: SampleSet = getattr(self.splits, split)
        transform = self.unaugmented if split == "train" and self.unaugmented is not None else self.evaluation
        chosen = torch.arange(min(count, len(samples)))
        return transform(read_fixed(samples, chosen)), samples.labels[chosen]


@dataclass(frozen=True)
class Images:
    """A dataset of labelled images.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        classes: Number of classes.
        validation: Share of the training images held out for validation.
        crop: Pixels of padding for random crops; 0 for none. Image files are cropped while decoding instead.
        flip: Whether to mirror images at random.
        turn: The largest random rotation, in degrees, to either side.
        grow: The largest share by which images grow or shrink at random.
        light: The largest random change of contrast, as a share; brightness changes by half of it.
        colour: The largest random change of how vivid colours are: up to ``1 + colour`` times as vivid, or as pale.
        erase: The side, in pixels, of a square that is filled with the image's mean colour; 0 for none.
        grain: The largest standard deviation of random noise, as a share of white; a fifth of the images get some.
        limit: Train on this many images only, chosen evenly over the classes.
        size: Height and width, for datasets that can have several; the dataset's own default if left out.
    """

    name: str
    classes: int
    validation: float = 0.1
    crop: int = 4
    flip: bool = True
    turn: float = 0.0
    grow: float = 0.0
    light: float = 0.0
    colour: float = 0.0
    erase: int = 0
    grain: float = 0.0
    limit: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        require_range("validation", self.validation, above=0, below=1)
        for name in ("crop", "turn", "light", "colour", "erase", "grain"):
            require_range(name, getattr(self, name), at_least=0)
        require_range("grow", self.grow, at_least=0, below=1)
        _check_counts(self.classes, self.limit)
        if self.size is not None:
            require_range("size", self.size, at_least=1)
            if self.name not in DATA_SETS or "size" not in DATA_SETS[self.name].options:
                raise ValueError(f"the images of {self.name} have a size of their own, which cannot be changed")

    def load(self, data_dir: str | Path | None, *, download: bool = True) -> Inputs:
        options: dict[str, Any] = {} if self.size is None else {"size": self.size}
        splits = load(self.name, data_dir, download=download, validation=self.validation, **options)
        in_memory = isinstance(splits.train, ImageSet)
        if self.size is None and not in_memory and DATA_SETS[self.name].folders == (".",):  # images of one's own
            size = splits.train.crop.size
            told = f"data.size is not set: the images of {self.name} become {size}x{size}"
            warnings.warn(f"{told}; data.size=32 makes them 32x32", stacklevel=2)
        normalize = Normalize.of(splits.train) if in_memory else _IMAGENET[splits.train.channels]
        shift = self.crop if in_memory else 0  # image files are cropped while they are decoded
        augment: list[Transform] = []
        if self.turn or self.grow:
            augment.append(RandomSimilarity(self.turn, self.grow, shift))
        elif shift:
            augment.append(RandomCrop(shift))
        if self.flip:
            augment.append(RandomFlip())
        if self.erase:
            augment.append(RandomErase(self.erase))
        if self.light:
            augment.append(RandomLight(contrast=self.light, brightness=self.light / 2))
        if self.colour:
            augment.append(RandomColour(1 + self.colour))
        if self.grain:
            augment.append(RandomGrain(self.grain))
        crop = {} if in_memory else {"crop": to_json(splits.validation.crop)}  # applied while decoding
        return Inputs(
            _limited(splits, self.limit),
            Compose(*augment, normalize),
            normalize,
            prefetch=0 if in_memory else 4,
            preprocessing={**to_json(normalize), **crop},
        )

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """Shape and classes of the images, and the normalisation (and crop) of those that are evaluated."""
        try:
            return self.load(data_dir, download=False).describe()
        except OSError as error:
            return InputInfo(missing=str(error))


@dataclass(frozen=True)
class Speech:
    """Spoken words as 32x32 log-mel images; the dataset has its own validation and test speakers.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        classes: Number of words.
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
            return Inputs(Splits(splits.train, *held_out), augmented, nothing, features, preprocessing=repr(features))
        train = precompute(splits.train, features)
        return Inputs(Splits(train, *held_out), nothing, nothing, preprocessing=repr(features))

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """The log-mel images, and the words if the dataset is there."""
        features = InputInfo((1, 32, 32), preprocessing=repr(speech_features()))
        try:
            return replace(features, classes=tuple(load(self.name, data_dir, download=False).train.classes))
        except OSError as error:
            return replace(features, missing=str(error))


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(Recipe):
    """All values of training one classifier.

    Args:
        model: The network.
        data: The dataset.
        optimizer: The optimizer, with its learning rate.
        schedule: How the learning rate changes.
        label_smoothing: Share of the target that is spread over all classes.
        clip: Largest norm of the gradient; ``None`` for no limit.
        top_k: The accuracies to report.
        channels_last: Whether images have their channels last in memory, which is faster for convolutions.
        range_penalty: Keeps the outputs of layers small, so that a polynomial stays tame; ``None`` for no penalty.
        average: How much a step keeps of the moving average of the weights, which is what the run saves; 0 for none.
        input_noise: Standard deviation of the Gaussian noise added to training inputs, after normalisation.
        gate_decay: Weight decay of the layers named ``gate``; the optimizer's if left out.
        robust: Training for proofs around inputs; ``None`` for training on the images alone.
        teacher: A trained network to learn from; ``None`` for learning from the labels alone.
    """

    model: Model
    data: Images | Speech
    optimizer: SGD | Adam | AdamW | Muon
    schedule: MultiStep | Plateau | Warmup | OneCycle | LinearDecay | Exponential | Constant
    label_smoothing: float = 0.0
    clip: float | None = None
    top_k: tuple[int, ...] = (1,)
    channels_last: bool = True
    range_penalty: RangePenalty | None = None
    average: float = 0.0
    input_noise: float = 0.0
    gate_decay: float | None = None
    robust: Robust | Certified | None = None
    teacher: Teacher | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("label_smoothing", self.label_smoothing, at_least=0, at_most=1)
        if self.clip is not None:
            require_range("clip", self.clip, above=0)  # torch would reverse the gradient for a negative one
        require_range("average", self.average, at_least=0, below=1)
        require_range("input_noise", self.input_noise, at_least=0)
        if self.gate_decay is not None:
            require_range("gate_decay", self.gate_decay, at_least=0)
        if not self.top_k:
            raise ValueError("top_k must name at least one accuracy, as in top_k=1,5; got none")
        for k in self.top_k:
            if not 1 <= k <= self.data.classes:
                raise ValueError(f"top_k must be at least 1 and at most all {self.data.classes} classes, got {k}")

    def networks(self) -> dict[str, nn.Module]:
        names = ("model", "trained") if self.average else ("model",)
        return {name: self.model.build(self.data.classes) for name in names}

    def mismatches(self, inputs: InputInfo) -> list[str]:
        """Between the number of classes, the outputs and inputs of the network, and the data."""
        found = []
        classes = self.data.classes if inputs.classes is None else len(inputs.classes)
        if classes != self.data.classes:
            found.append(f"data.classes is {self.data.classes}, but {self.data.name} has {classes} classes")
        if inputs.shape is not None:
            with torch.random.fork_rng(devices=[]):
                found += _network_mismatches(self.model.build(self.data.classes), inputs.shape, self.data.classes)
        return found

    def _look(self, found: Findings, data_dir: str | Path | None) -> None:
        super()._look(found, data_dir)
        with found.of("channels_last"), torch.random.fork_rng(devices=[]):
            network = self.model.build(self.data.classes)
            if self.channels_last:
                put_channels_last(network, torch.device("cpu"))
        with found.of("gate_decay" if self.gate_decay is not None else "optimizer"):
            self.optimizer.build(self._parameters(network))
        if (penalty := self.range_penalty) is not None:
            with found.of("range_penalty"):
                matching_layers(network, penalty.layers)
            if penalty.damaged and isinstance(self.data, Speech):
                found.mismatches.append("range_penalty.damaged is for images, and the data are speech")
        if self.robust is not None and isinstance(self.data, Speech):
            found.mismatches.append("robust: eps is in pixels, and speech has none")
        if self.teacher is not None and not found.missing:
            with found.of("teacher"):
                self.teacher.build(self.describe_inputs(data_dir))
        if not found.missing:
            with found.of("data"):
                samples = len(load(self.data.name, data_dir, download=False).train)
                self._look_at_batches(found, samples if self.data.limit is None else min(samples, self.data.limit))

    def build(self, data: Inputs, accelerator: Accelerator) -> Classification:
        if found := self.mismatches(data.describe()):
            raise ValueError("; ".join(found))
        seed_everything(self.seed, accelerator.device)
        network = self.model.build(self.data.classes)
        if self.channels_last:
            put_channels_last(network, accelerator.device)

        def samples(split: Split) -> Iterable[tuple[Tensor, Tensor]]:
            return evaluation_batches(
                data.splits, split, _EVALUATION_BATCH, data.evaluation, accelerator, prefetch=data.prefetch
            )

        penalty = self.range_penalty
        task = Classification(
            network,
            samples=samples,
            accelerator=accelerator,
            label_smoothing=self.label_smoothing,
            clip=self.clip,
            top_k=self.top_k,
            range_penalty=penalty,
            damage=Damage.of(data.evaluation) if penalty is not None and penalty.damaged else None,
            average=self.average,
            input_noise=self.input_noise,
            robust=None if self.robust is None else self.robust.build(data.evaluation),
        )
        seed_processes_apart(self.seed, accelerator)
        return task

    def prepare_training(self, task: Classification, data: Inputs, accelerator: Accelerator) -> Plan:
        batches = self.training_batches(data.train, data.augment, accelerator, prefetch=data.prefetch)
        plan = self.plan(batches)
        optimizer = self.optimizer.build(self._parameters(task.network))
        schedule = self.schedule.attach(optimizer, steps_per_epoch=plan.steps_per_epoch, epochs=self.epochs)
        task.batches = batches
        if isinstance(self.robust, Certified):
            task.grow_ball(round(self.robust.growing * plan.steps))
        if self.teacher is not None:  # only now: evaluation does without, when it may be gone
            task.learn_from(self.teacher.build(data.describe()))
        task.optimizers, task.schedules = {"model": accelerator.prepare(optimizer)}, {"model": schedule}
        return plan

    def _parameters(self, network: nn.Module) -> Iterable[Any]:
        """The parameters, in groups where gates have a weight decay of their own."""
        if self.gate_decay is None:
            return network.parameters()
        if isinstance(self.optimizer, Muon):
            raise ValueError("gate_decay is for other optimizers: Muon sets the size of the weights in each step")
        groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for name, parameter in network.named_parameters():
            groups["gate" in name.split(".")].append(parameter)
        if not groups[True]:
            raise ValueError(f"gate_decay is {self.gate_decay}, and the network has no layers named gate")
        return [{"params": groups[False]}, {"params": groups[True], "weight_decay": self.gate_decay}]


def _network_mismatches(network: nn.Module, shape: tuple[int, ...], classes: int) -> list[str]:
    """Whether a network accepts inputs of a shape, and gives one score per class."""
    try:
        found = (1, *output_shape(network, shape))
    except (ValueError, RuntimeError) as error:
        grey = " (model.in_channels=1 makes a network for grey images)" if shape[0] == 1 else ""
        return [f"model: the network does not take inputs of shape {shape}, as the data are{grey}: {error}"]
    if found != (1, classes):
        return [f"model: the network gives shape {found} for one input, and {classes} classes need (1, {classes})"]
    return []


def _check_counts(classes: int, limit: int | None) -> None:
    require_range("classes", classes, at_least=1)
    if limit is not None and limit < classes:
        raise ValueError(f"limit must be at least 1 for each of the {classes} classes, got {limit}")


def _limited(splits: Splits, limit: int | None) -> Splits:
    if limit is None or limit >= len(splits.train):
        return splits
    chosen = stratified_sample(splits.train.labels, limit)
    return Splits(splits.train.subset(chosen), splits.validation, splits.test)
