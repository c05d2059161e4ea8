"""Recipes for generators of images and their discriminators."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pinets.data import Compose, FolderSet, ImageSet, Normalize, RandomFlip, SampleSet, Transform, load
from pinets.data.samples import read_fixed
from pinets.engine.loop import Plan
from pinets.engine.model import Network, put_channels_last
from pinets.engine.optimization import Adam, Constant, LinearDecay, require_range
from pinets.engine.randomness import seed_everything, seed_processes_apart
from pinets.engine.recipe import Findings, InputInfo, Recipe, output_shape
from pinets.models.stylegan import MinibatchDeviation
from pinets.tasks.generation.losses import AdversarialLoss, Wasserstein
from pinets.tasks.generation.measurement import Measurement
from pinets.tasks.generation.metrics import TensorSource, get_protocol, protocol_names
from pinets.tasks.generation.task import Generation

if TYPE_CHECKING:
    from accelerate import Accelerator

    from pinets.tasks.generation.metrics.sources import ImageSource

__all__ = ["GenerationRecipe", "Network", "Pictures", "RealImages", "draw_noise"]

NoiseName = Literal["normal", "uniform"]


@dataclass(frozen=True)
class RealImages:
    """The images to train on and those to test with, and the data folder they were read from."""

    train: SampleSet
    test: SampleSet
    data_dir: str | Path | None = None


@dataclass(frozen=True)
class Pictures:
    """The images to imitate: the training and validation images of a data set.

    Args:
        name: One of ``pinets.data.DATA_SETS``.
        size: Height and width that image files are scaled to; ``None`` for sets that have one of their own.
        pad: Black pixels added on every side.
        flip: Whether to mirror images at random.
    """

    name: str
    size: int | None = None
    pad: int = 0
    flip: bool = False

    def load(self, data_dir: str | Path | None) -> RealImages:
        """The images, padded."""
        options: dict[str, Any] = {} if self.size is None else {"size": self.size}
        splits = load(self.name, data_dir, **options)
        train = [splits.train, splits.validation]
        labels = torch.cat([part.labels for part in train])
        if isinstance(splits.train, FolderSet):
            if self.pad:
                raise ValueError(f"pad is for images that are held in memory, and {self.name} is read from files")
            paths = tuple(path for part in train for path in part.paths)
            return RealImages(replace(splits.train, paths=paths, labels=labels), splits.test, data_dir)
        if not isinstance(splits.train, ImageSet):
            raise ValueError(f"{self.name} is no set of images in memory or in files to generate more of")
        images = torch.cat([part.images for part in train])
        return RealImages(
            ImageSet(F.pad(images, [self.pad] * 4), labels, splits.train.classes),
            replace(splits.test, inputs=F.pad(splits.test.images, [self.pad] * 4)),
            data_dir,
        )

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """Nothing is known: the input of a generator is noise, which its data do not describe."""
        return InputInfo()

    @property
    def changes(self) -> str:
        """The changes to the images, as the end of the name of a reference."""
        scaled = "" if self.size is None else f", {self.size}x{self.size}"
        return scaled + (f", padded by {self.pad}" if self.pad else "")

    def transform(self) -> Transform:
        """Values in [-1, 1], as the generator's."""
        flip: list[Transform] = [RandomFlip()] if self.flip else []
        return Compose(*flip, _ToRange())


class _ToRange(Transform):
    """Pixels to [-1, 1], whatever their channels."""

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        half = (0.5,) * inputs.shape[1]
        return Normalize(half, half).apply(inputs, uniforms)


@dataclass(frozen=True, kw_only=True)
class GenerationRecipe(Recipe):
    """The recipe of one generator and its discriminator.

    Args:
        model: The generator.
        discriminator: Its adversary.
        data: What to generate.
        loss: The loss of both networks.
        noise: Standard normal, or uniform in [-1, 1].
        optimizer: The generator's optimizer.
        discriminator_optimizer: The discriminator's optimizer.
        schedule: How both learning rates change.
        steps_per_epoch: Updates of the generator from one evaluation to the next, which is an epoch here.
        discriminator_steps: Updates of the discriminator, of ``batch`` images each, for one of the generator.
        generator_batch: Images in an update of the generator.
        average: How much of the moving average of the generator's weights a step keeps.
        metric: The protocol of the test, one of ``pinets.tasks.generation.metrics.PROTOCOLS``, or several with commas
            between them; none if ``None``.
        validation_metric: The protocol during training, which should be a quick one.
        channels_last: The layout of images in memory that is faster for convolutions.
    """

    model: Network
    discriminator: Network
    data: Pictures
    loss: AdversarialLoss
    noise: NoiseName = "normal"
    optimizer: Adam
    discriminator_optimizer: Adam
    schedule: LinearDecay | Constant
    steps_per_epoch: int = 1000
    discriminator_steps: int = 1
    generator_batch: int = 64
    average: float = 0.999
    metric: str | None = "fid50k_train"
    validation_metric: str | None = None
    channels_last: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps_per_epoch", "discriminator_steps", "generator_batch"):
            require_range(name, getattr(self, name), at_least=1)
        require_range("average", self.average, at_least=0, below=1)
        if self.accumulate != 1:
            raise ValueError(f"a generator's batches are not divided: accumulate must be 1, got {self.accumulate}")
        if self.compile and (isinstance(self.loss, Wasserstein) or getattr(self.loss, "r1", 0) > 0):
            raise ValueError(f"the gradient penalty of {self.loss} needs second derivatives: set compile=no")
        for metric in (self.metric, self.validation_metric):
            protocol_names(metric)

    @property
    def _loaded_batch(self) -> int:
        """The real images of all updates of the discriminator in a step."""
        return self.batch * self.discriminator_steps

    def networks(self) -> dict[str, nn.Module]:
        return {"model": self.model.build(), "discriminator": self.discriminator.build()}

    def reference(self, protocol: str, train: SampleSet, test: SampleSet) -> ImageSource:
        """The real images that a protocol compares generated ones with."""
        split = getattr(get_protocol(protocol), "split", "train")
        name, images = f"{self.data.name}/{split}{self.data.changes}", test if split == "test" else train
        if isinstance(images, ImageSet):
            return TensorSource(name, images.images, images.labels)
        assert isinstance(images, FolderSet)
        return _FileSource(name, images)

    def _measurement(self, data: RealImages, device: torch.device) -> Measurement:
        return Measurement(
            {"validation": self.validation_metric, "test": self.metric},
            reference=partial(self.reference, train=data.train, test=data.test),
            device=device,
            data_dir=data.data_dir,
        )

    def _look(self, found: Findings, data_dir: str | Path | None) -> None:
        data: RealImages | None = None
        with found.of("data"):
            data = self.load(data_dir)
        with torch.random.fork_rng(devices=[]):
            networks = self.networks()
        for name, network in networks.items():
            with found.of(f"channels_last of {name}"):
                if self.channels_last:
                    put_channels_last(network, torch.device("cpu"))
        shape = None if data is None else _image_shape(data.train)
        found.mismatches += _image_mismatches(networks["model"], networks["discriminator"], shape)
        found.mismatches += _group_mismatches(networks["discriminator"], self.batch)
        if data is not None:
            self._look_at_batches(found, len(data.train))
            with found.of("metric"), torch.random.fork_rng(devices=[]):
                self._measurement(data, torch.device("cpu"))

    def build(self, data: RealImages, accelerator: Accelerator) -> Generation:
        # before seeding: loading the weights of Inception draws random numbers
        measure = self._measurement(data, accelerator.device)
        seed_everything(self.seed, accelerator.device)
        networks = self.networks()
        if self.channels_last:
            for network in networks.values():
                put_channels_last(network, accelerator.device)
        generator, discriminator = networks["model"], networks["discriminator"]
        latent: Any = generator.latent
        found = _image_mismatches(generator, discriminator, _image_shape(data.train))
        found += _group_mismatches(discriminator, self.batch // accelerator.num_processes)
        if found:
            raise ValueError("; ".join(found))

        def noise(count: int) -> Tensor:
            return draw_noise(self.noise, count, latent, accelerator.device)

        task = Generation(
            generator,
            discriminator,
            loss=self.loss,
            noise=noise,
            evaluate=measure,
            accelerator=accelerator,
            discriminator_steps=self.discriminator_steps,
            generator_batch=self.generator_batch // accelerator.num_processes,
            average=self.average,
            seed=self.seed,
            protocols=measure.protocols,
        )
        seed_processes_apart(self.seed, accelerator)
        return task

    def prepare_training(self, task: Generation, data: RealImages, accelerator: Accelerator) -> Plan:
        processes = accelerator.num_processes
        if self.generator_batch % processes or self.batch % processes:
            raise ValueError(
                f"batch {self.batch} and generator_batch {self.generator_batch} cannot be shared equally by "
                f"{processes} processes"
            )
        prefetch = 0 if isinstance(data.train, ImageSet) else 4
        task.batches = self.training_batches(data.train, self.data.transform(), accelerator, prefetch=prefetch)
        optimizers = {
            "generator": self.optimizer.build(task.generator.parameters()),
            "discriminator": self.discriminator_optimizer.build(task.discriminator.parameters()),
        }
        task.schedules = {
            name: self.schedule.attach(optimizer, steps_per_epoch=self.steps_per_epoch, epochs=self.epochs)
            for name, optimizer in optimizers.items()
        }
        task.optimizers = {name: accelerator.prepare(optimizer) for name, optimizer in optimizers.items()}
        return self.plan_epochs(self.steps_per_epoch)


def _image_shape(samples: SampleSet) -> tuple[int, ...]:
    return tuple(read_fixed(samples, torch.tensor([0])).shape[1:])


def _image_mismatches(generator: nn.Module, discriminator: nn.Module, real: tuple[int, ...] | None) -> list[str]:
    """Between the generator's images, what the discriminator takes, and the real images where they are known."""
    latent: Any = generator.latent
    made = output_shape(generator, (latent,))
    found = []
    if real is not None and made != real:
        found.append(
            f"the generator makes images of {made} and the data are of {real} (channels, height, width): change "
            "channels or size of model and discriminator, or of data"
        )
    for shape in dict.fromkeys((made, made if real is None else real)):
        try:
            output_shape(discriminator, shape)
        except RuntimeError as error:  # a layer does not fit the shape
            found.append(
                f"the discriminator does not take the images, which are of {shape} (channels, height, width): "
                f"change discriminator.channels or discriminator.size ({error})"
            )
    return found


def _group_mismatches(discriminator: nn.Module, batch: int) -> list[str]:
    """Real and generated images pass the discriminator as one batch, and must not share a group of it."""
    groups = {layer.group for layer in discriminator.modules() if isinstance(layer, MinibatchDeviation)}
    return [
        f"batch: the discriminator compares the images in groups of {group}, and {batch} (in each process) is no "
        "multiple of it: a group would hold real and generated images"
        for group in groups
        if batch % group
    ]


def draw_noise(name: NoiseName, count: int, latent: int, device: torch.device | str = "cpu") -> Tensor:
    """Draw noise from torch's global generator.

    >>> draw_noise("uniform", 3, 5).abs().max() <= 1
    tensor(True)
    """
    if name == "normal":
        return torch.randn(count, latent, device=device)
    return torch.rand(count, latent, device=device) * 2 - 1


class _FileSource:
    """Image files as a reference, scaled as they are for training."""

    labels = None

    def __init__(self, name: str, images: FolderSet) -> None:
        self.name, self._images = name, images

    def __len__(self) -> int:
        return len(self._images)

    def read(self, indices: Tensor) -> Tensor:
        return read_fixed(self._images, indices)

    def fingerprint(self) -> str:
        told = ((path, Path(path).stat()) for path in self._images.paths)
        files = "\n".join(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in told)
        return hashlib.sha256(f"{self._images.crop}\n{files}".encode()).hexdigest()
