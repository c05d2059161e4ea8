"""What every recipe has, whatever it trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from pinets.data import Batches, SampleSet, Splits, Transform
from pinets.train.loop import Plan
from pinets.train.task import Split, Task

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Recipe", "Scale", "evaluation_batches"]

Scale = Literal["full", "small"]


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """The values of one run. Subclasses add those of their task, and build it.

    Args:
        name: By which it is found.
        scale: ``"full"`` as in the paper, or ``"small"`` for two CPU cores.
        epochs: How long to train.
        batch: Samples in an update, over all processes and accumulation steps.
        accumulate: Parts in which a batch is worked on one after the other, to need less memory.
        precision: ``"no"`` for float32, or the type of mixed precision.
        seed: Of the initial weights, the order of the data and its augmentation.
        checkpoint_every: Updates between two checkpoints; there is one after each epoch in any case.
        log_every: Updates between two lines of the log.
    """

    name: str
    scale: Scale = "full"
    epochs: int
    batch: int
    accumulate: int = 1
    precision: Literal["no", "bf16", "fp16"] = "no"
    seed: int = 0
    checkpoint_every: int = 500
    log_every: int = 50

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch % self.accumulate:
            raise ValueError(f"a batch of {self.batch} cannot be divided into {self.accumulate} equal parts")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be at least 0 and at most 2**63 - 1, got {self.seed}")
        if not self.name or self.name.startswith(".") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"name is that of a folder: it must have no slash and no dot at its beginning, got {self.name!r}"
            )

    @property
    def title(self) -> str:
        """The name of its folder."""
        return self.name if self.scale == "full" else f"{self.name}-{self.scale}"

    @abstractmethod
    def networks(self) -> dict[str, nn.Module]:
        """The networks it trains, fresh; without looking at data."""

    @abstractmethod
    def prepare(self, data_dir: str | Path | None, accelerator: Accelerator) -> tuple[Task, Plan]:
        """Load the data and build all there is to train."""

    def training_batches(
        self, samples: SampleSet, transform: Transform, accelerator: Accelerator, *, prefetch: int = 0
    ) -> Batches:
        """The batches of one process, shuffled; an update takes ``accumulate`` of them."""
        return Batches(
            samples,
            self.batch // self.accumulate,
            transform=transform,
            shuffle=True,
            drop_last=True,
            seed=self.seed,
            prefetch=prefetch,
            rank=accelerator.process_index,
            world_size=accelerator.num_processes,
        )

    def updates(self, batches: Batches) -> int:
        """How many updates a pass over the batches makes."""
        return max(1, len(batches) // self.accumulate)

    def plan(self, steps_per_epoch: int) -> Plan:
        """The plan of all epochs."""
        return Plan(
            steps=self.epochs * steps_per_epoch,
            steps_per_epoch=steps_per_epoch,
            checkpoint_every=self.checkpoint_every,
            log_every=self.log_every,
        )


def evaluation_batches(
    splits: Splits[Any],
    split: Split,
    size: int,
    transform: Transform,
    accelerator: Accelerator,
    *,
    prefetch: int = 0,
) -> Batches:
    """The share of one process in a split, once through.

    Args:
        splits: All samples.
        split: Which to take.
        size: Of a batch over all processes; a few less where they do not share it equally.
        transform: What is done to a batch.
        accelerator: Knows the processes.
        prefetch: Batches that are read ahead.
    """
    return Batches(
        splits.validation if split == "validation" else splits.test,
        size - size % accelerator.num_processes,
        transform=transform,
        prefetch=prefetch,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
    )
