"""Recipes for networks that embed faces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from pinets.data import CentreCrop, Compose, MissingDataError, RandomFlip, SampleSet, Transform, data_folder
from pinets.data.damage import Damage, ForgivingSet
from pinets.data.transforms import RandomLight, RandomSimilarity
from pinets.engine.loop import Plan
from pinets.engine.model import Network, put_channels_last
from pinets.engine.optimization import SGD, Constant, LinearDecay, MultiStep, OneCycle, Warmup, require_range
from pinets.engine.randomness import seed_everything, seed_processes_apart
from pinets.engine.recipe import Findings, InputInfo, Recipe, output_shape
from pinets.engine.task import Split
from pinets.engine.values import to_json
from pinets.tasks.faces.arcface import ArcFace
from pinets.tasks.faces.data.identities import open_identities
from pinets.tasks.faces.data.lfw import find_lfw, read_lfw_view1
from pinets.tasks.faces.data.pairs import FacePairs, open_pack
from pinets.tasks.faces.embeddings import FACE_PIXELS
from pinets.tasks.faces.partial_fc import PartialFC
from pinets.tasks.faces.task import FaceRecognition, Verification

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Embedder", "FaceInputs", "FacePack", "FaceRecipe", "LfwPeople"]


class Embedder(Network):
    """A registered model that embeds faces, and its arguments; on a command line ``--set model.width=16``."""


@dataclass(frozen=True)
class FaceInputs:
    """The opened data of a recipe: training images, their augmentation, and the pairs to verify."""

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
        turn: The largest rotation, in degrees, to either side.
        grow: The largest share by which images grow or shrink.
        light: The largest change of contrast, as a share; brightness changes by half of it.
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
        augment: list[Transform] = [RandomFlip()] if self.flip else []
        if self.shift or self.turn or self.grow:
            augment.append(RandomSimilarity(self.turn, self.grow, self.shift))
        if self.light:
            augment.append(RandomLight(contrast=self.light, brightness=self.light / 2))
        folder = find_lfw(data_folder(data_dir))
        parts = read_lfw_view1(folder, size=self.size, validation=self.validation, smallest=self.smallest)
        return FaceInputs(
            parts.train,
            Compose(*augment, FACE_PIXELS),
            {
                "validation": Verification({"held_out": parts.validation}, FACE_PIXELS),
                "test": Verification({"view1": parts.test}, FACE_PIXELS),
            },
        )

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """The images of a face; a network that embeds faces has no classes."""
        return _face_info(self.size)


@dataclass(frozen=True)
class FacePack:
    """A large set of faces: MXNet's ``train.rec``, shards, or a folder for each person, with ``.bin`` packs of pairs.

    Args:
        folder: Its name in the data folder.
        size: Height and width of the images.
        validation: The packs of pairs scored during training. Their scores decide nothing.
        test: The packs scored at the end. Packs that are not in the folder are skipped.
        strict: Whether a record that does not decode ends the run; otherwise it is counted and reported.
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

    def describe(self, data_dir: str | Path | None = None) -> InputInfo:
        """The images of a face; a network that embeds faces has no classes."""
        return _face_info(self.size)

    def _packs(self, folder: Path, names: tuple[str, ...]) -> dict[str, FacePairs]:
        there = [name for name in names if (folder / f"{name}.bin").is_file()]
        if not there:
            raise MissingDataError(f"{folder} holds none of the packs of pairs {', '.join(names)} (as {names[0]}.bin)")
        return {name: open_pack(folder / f"{name}.bin", size=self.size) for name in there}


def _face_info(size: int) -> InputInfo:
    return InputInfo((3, size, size), preprocessing=to_json(FACE_PIXELS))


@dataclass(frozen=True, kw_only=True)
class FaceRecipe(Recipe):
    """All values of training one network that embeds faces.

    Args:
        model: The network.
        data: The faces.
        loss: The scale and the margin.
        optimizer: The optimizer of the network and of the centres of the identities.
        schedule: How the learning rate changes.
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

    def mismatches(self, inputs: InputInfo) -> list[str]:
        """Between the size of the images and that of the network."""
        if inputs.shape is None:
            return []
        with torch.random.fork_rng(devices=[]):
            network = self.networks()["model"]
        try:
            output_shape(network, inputs.shape)
        except (ValueError, RuntimeError) as error:
            return [f"model: the network does not take faces of {inputs.shape}, as data.size makes them: {error}"]
        return []

    def _look(self, found: Findings, data_dir: str | Path | None) -> None:
        super()._look(found, data_dir)
        with found.of("channels_last"), torch.random.fork_rng(devices=[]):
            if self.channels_last:
                put_channels_last(self.networks()["model"], torch.device("cpu"))
        with found.of("data"):
            self._look_at_batches(found, len(self.load(data_dir).train))

    def build(self, data: FaceInputs, accelerator: Accelerator) -> FaceRecognition:
        if found := self.mismatches(self.describe_inputs()):
            raise ValueError("; ".join(found))
        seed_everything(self.seed, accelerator.device)
        network = self.networks()["model"]
        if self.channels_last:
            put_channels_last(network, accelerator.device)
        task = FaceRecognition(network, verification=data.verification, accelerator=accelerator, damage=data.damage)
        seed_processes_apart(self.seed, accelerator)
        return task

    def prepare_training(self, task: FaceRecognition, data: FaceInputs, accelerator: Accelerator) -> Plan:
        task.batches = self.training_batches(data.train, data.augment, accelerator, prefetch=data.prefetch)
        plan = self.plan(task.batches)
        network = accelerator.unwrap_model(task.network)
        optimizer = self.optimizer.build(network.parameters())
        schedule = self.schedule.attach(optimizer, steps_per_epoch=plan.steps_per_epoch, epochs=self.epochs)
        task.optimizers, task.schedules = {"model": accelerator.prepare(optimizer)}, {"model": schedule}
        task.classifier = PartialFC(
            len(data.train.classes),
            network.embedding,
            self.loss,
            self.optimizer,
            sample=self.sample,
            seed=self.seed,
            device=accelerator.device,
            rank=accelerator.process_index,
            world_size=accelerator.num_processes,
        )
        return plan
