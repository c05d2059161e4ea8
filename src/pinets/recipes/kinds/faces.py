"""Recipes for networks that embed faces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from pinets.data import CentreCrop, Compose, MissingDataError, RandomFlip, SampleSet, Transform, data_folder
from pinets.data.damage import Damage, ForgivingSet
from pinets.data.faces.face_pairs import FacePairs
from pinets.data.faces.identities import open_identities
from pinets.data.faces.packs import open_pack
from pinets.data.faces.pixels import FACE_PIXELS
from pinets.data.sets.lfw import find_lfw, read_lfw_view1
from pinets.data.transforms.jitter import RandomLight, RandomSimilarity
from pinets.recipes.kinds.model import Network
from pinets.recipes.kinds.recipe import Recipe
from pinets.train.arcface import ArcFace
from pinets.train.faces import FaceRecognition, Verification
from pinets.train.layout import put_channels_last
from pinets.train.loop import Plan
from pinets.train.optimizers import SGD
from pinets.train.partial_fc import PartialFC
from pinets.train.randomness import seed_everything, seed_processes_apart
from pinets.train.ranges import require_range
from pinets.train.schedules import Constant, LinearDecay, MultiStep, OneCycle, Warmup
from pinets.train.task import Split

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Embedder", "FaceInputs", "FacePack", "FaceRecipe", "LfwPeople"]


class Embedder(Network):
    """A registered model that embeds faces, and what it is made with; on a command line ``--set model.width=16``."""


@dataclass(frozen=True)
class FaceInputs:
    """What a recipe's data comes to."""

    train: SampleSet
    augment: Transform
    verification: dict[Split, Verification]
    prefetch: int = 0
    damage: Damage | None = None


@dataclass(frozen=True)
class LfwPeople:
    """View 1 of LFW: training on the people of ``pairsDevTrain.txt``, verifying the pairs of ``pairsDevTest.txt``.

    Args:
        size: Height and width of the images.
        validation: The share of the people held out for validation.
        smallest: People with fewer images are not trained on.
        flip: Whether to mirror images at random.
        shift: Pixels by which images are shifted at random.
        turn: Degrees by which they are turned, to either side.
        grow: The share by which they grow or shrink.
        light: The share by which contrast, and half of it by which brightness, changes.
    """

    size: int = 64
    validation: float = 0.1
    smallest: int = 1
    flip: bool = True
    shift: float = 4.0
    turn: float = 0.0
    grow: float = 0.0
    light: float = 0.0

    def __post_init__(self) -> None:
        require_range("validation", self.validation, above=0, below=1)
        for name in ("size", "smallest"):
            require_range(name, getattr(self, name), at_least=1)
        for name in ("shift", "turn", "grow", "light"):
            require_range(name, getattr(self, name), at_least=0)

    def load(self, data_dir: str | Path | None) -> FaceInputs:
        folder = find_lfw(data_folder(data_dir))
        parts = read_lfw_view1(folder, size=self.size, validation=self.validation, smallest=self.smallest)
        return FaceInputs(
            parts.train,
            Compose(*self._augment(), FACE_PIXELS),
            {
                "validation": Verification({"held_out": parts.validation}, FACE_PIXELS),
                "test": Verification({"view1": parts.test}, FACE_PIXELS),
            },
        )

    def _augment(self) -> list[Transform]:
        augment: list[Transform] = [RandomFlip()] if self.flip else []
        if self.shift or self.turn or self.grow:
            augment.append(RandomSimilarity(self.turn, self.grow, self.shift))
        if self.light:
            augment.append(RandomLight(contrast=self.light, brightness=self.light / 2))
        return augment


@dataclass(frozen=True)
class FacePack:
    """A large set of faces: MXNet's ``train.rec``, shards, or a folder for each person, with ``.bin`` packs of pairs.

    Args:
        folder: Its name in the data folder.
        size: Height and width of the images.
        validation: The packs of pairs that are scored during training. Nothing is decided by them.
        test: Those that are scored at the end. Packs that are not in the folder are left out.
        strict: Whether a record that does not decode ends the run; otherwise it is counted and told.
    """

    folder: str
    size: int = 112
    validation: tuple[str, ...] = ("lfw", "cfp_fp", "agedb_30")
    test: tuple[str, ...] = ("lfw", "cfp_ff", "cfp_fp", "cplfw", "agedb_30", "calfw")
    strict: bool = False

    def load(self, data_dir: str | Path | None) -> FaceInputs:
        folder = data_folder(data_dir) / self.folder
        damage = Damage(strict=self.strict)
        faces = open_identities(folder, CentreCrop(self.size, self.size), damage)
        return FaceInputs(
            ForgivingSet(faces, damage),
            Compose(RandomFlip(), FACE_PIXELS),
            {
                "validation": Verification(self._packs(folder, self.validation), FACE_PIXELS),
                "test": Verification(self._packs(folder, self.test), FACE_PIXELS),
            },
            prefetch=4,
            damage=damage,
        )

    def _packs(self, folder: Path, names: tuple[str, ...]) -> dict[str, FacePairs]:
        there = [name for name in names if (folder / f"{name}.bin").is_file()]
        if not there:
            raise MissingDataError(f"{folder} holds none of the packs of pairs {', '.join(names)} (as {names[0]}.bin)")
        return {name: open_pack(folder / f"{name}.bin", size=self.size) for name in there}


@dataclass(frozen=True, kw_only=True)
class FaceRecipe(Recipe):
    """All values of training one network that embeds faces.

    Args:
        model: What to train.
        data: On whom.
        loss: The scale and the margin.
        optimizer: Of the network and of the centres of the identities.
        schedule: Of the learning rate.
        sample: The share of the identities outside a batch that a step compares with; less than 1 for millions of them.
        channels_last: The layout of images in memory that is faster for convolutions.
    """

    model: Embedder
    data: FacePack | LfwPeople
    loss: ArcFace
    optimizer: SGD
    schedule: MultiStep | Warmup | OneCycle | LinearDecay | Constant
    sample: float = 1.0
    channels_last: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("sample", self.sample, above=0, at_most=1)

    def networks(self) -> dict[str, nn.Module]:
        return {"model": self.model.build()}

    def prepare(self, data_dir: str | Path | None, accelerator: Accelerator) -> tuple[FaceRecognition, Plan]:
        inputs = self.data.load(data_dir)
        batches = self.training_batches(inputs.train, inputs.augment, accelerator, prefetch=inputs.prefetch)
        steps_per_epoch = self.updates(batches)
        seed_everything(self.seed, accelerator.device)
        network = self.networks()["model"]
        if self.channels_last:
            put_channels_last(network, accelerator.device)
        optimizer = self.optimizer.build(network.parameters())
        classifier = PartialFC(
            len(inputs.train.classes),
            network.embedding,  # type: ignore[arg-type]
            self.loss,
            self.optimizer,
            sample=self.sample,
            seed=self.seed,
            device=accelerator.device,
            rank=accelerator.process_index,
            world_size=accelerator.num_processes,
        )
        task = FaceRecognition(
            network,
            optimizer,
            self.schedule.attach(optimizer, steps_per_epoch=steps_per_epoch, epochs=self.epochs),
            classifier,
            batches=batches,
            verification=inputs.verification,
            accelerator=accelerator,
            damage=inputs.damage,
        )
        seed_processes_apart(self.seed, accelerator)
        return task, self.plan(steps_per_epoch)
