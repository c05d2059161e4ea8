"""Recipes: all values of a run, and the registry that finds them by name."""

from __future__ import annotations

import hashlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

import torch
from torch import nn

from pinets._modes import evaluating
from pinets._nearest import did_you_mean
from pinets.data import Batches, MissingDataError, SampleSet, Splits, Transform
from pinets.data.download import offline
from pinets.engine.loop import Plan
from pinets.engine.optimization import require_range
from pinets.engine.task import Split, Task
from pinets.engine.values import RecipeError, from_json, set_values

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = [
    "Findings",
    "InputInfo",
    "Recipe",
    "Scale",
    "UnknownRecipeError",
    "change_recipe",
    "evaluation_batches",
    "get_recipe",
    "keys_of",
    "list_recipes",
    "output_shape",
    "recipe",
    "recipe_from_json",
    "recipe_notes",
    "split_variant",
]

Scale = Literal["full", "medium", "small"]


@dataclass(frozen=True)
class InputInfo:
    """What a recipe's data say about the inputs of its network; the ``describe`` method of a data class returns it.

    Attributes:
        shape: Shape of one input, without the batch dimension.
        classes: Names of the classes.
        preprocessing: What is done to an input before it reaches the network, as plain data.
        missing: Why the dataset could not be read; empty if it could.
    """

    shape: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    preprocessing: Any = None
    missing: str = ""


@dataclass
class Findings:
    """What would stop a run: mismatches between the values of a recipe and its data, and data that are missing.

    Example:
        >>> found = Findings()
        >>> with found.of("batch"):
        ...     raise ValueError("8 samples make no batch of 16")
        >>> found.mismatches
        ['batch: 8 samples make no batch of 16']
    """

    mismatches: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Collect the error of a check, with the recipe's key it is about."""
        try:
            yield
        except MissingDataError as error:
            self.missing.append(str(error))
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            self.mismatches.append(str(error) if str(error).startswith(key) else f"{key}: {error}")


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """The values of one run. A subclass adds those of its task, and builds the task from them.

    Args:
        name: Its name in the registry, and of the run folder.
        scale: ``"full"`` as in the paper, ``"medium"`` for two hours on a CPU core, or ``"small"`` for minutes.
        epochs: How long to train.
        batch: Samples in an update, over all processes and accumulation steps.
        accumulate: A batch is processed in this many parts, one after the other, to save memory.
        precision: ``"no"`` for float32, or the type of mixed precision.
        compile: Whether to compile the networks. A run may be resumed with another choice.
        seed: Seed of the initial weights, the order of the data and its augmentation.
        checkpoint_every: Updates between two checkpoints; there is one after each epoch in any case.
        log_every: Updates between two lines of the log.
        data: What it is trained on: an object with the methods ``load(data_dir)`` and ``describe(data_dir)``.
    """

    name: str
    scale: Scale = "full"
    epochs: int
    batch: int
    accumulate: int = 1
    precision: Literal["no", "bf16", "fp16"] = "no"
    compile: bool = False
    seed: int = 0
    checkpoint_every: int = 500
    log_every: int = 50
    data: Any

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "checkpoint_every", "log_every"):
            require_range(name, getattr(self, name), at_least=1)
        if self.batch % self.accumulate:
            raise ValueError(f"a batch of {self.batch} cannot be divided into {self.accumulate} equal parts")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be at least 0 and at most 2**63 - 1, got {self.seed}")
        if not self.name or self.name.startswith(".") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"name is also that of a folder: it must have no slash and no leading dot, got {self.name!r}"
            )

    @property
    def title(self) -> str:
        """The name of its folder."""
        return self.name if self.scale == "full" else f"{self.name}-{self.scale}"

    @property
    def _loaded_batch(self) -> int:
        """Samples that a training step of the task takes, over all processes."""
        return self.batch // self.accumulate

    @abstractmethod
    def networks(self) -> dict[str, nn.Module]:
        """The networks it trains, with fresh weights; needs no data."""

    def rebuild(self, data: Callable[[], Any]) -> dict[str, nn.Module]:
        """The networks to load trained weights into. ``data`` loads the run's data, for networks that need them."""
        return self.networks()

    def load(self, data_dir: str | Path | None) -> Any:
        """The dataset; its ``train`` are the training samples, a :class:`~pinets.data.SampleSet`."""
        return self.data.load(data_dir)

    def describe_inputs(self, data_dir: str | Path | None = None) -> InputInfo:
        """Shape, classes and preprocessing of the inputs, as far as they are known. Nothing is downloaded."""
        return self.data.describe(data_dir)

    def mismatches(self, inputs: InputInfo) -> list[str]:
        """Mismatches between the values and the data; empty if there are none, or if nothing is known of the data."""
        return []

    def check(self, data_dir: str | Path | None = None) -> Findings:
        """Everything that would stop a run, as far as can be told without training or downloading."""
        found = Findings()
        with offline(), found.of("model"):
            self._look(found, data_dir)
        found.mismatches = list(dict.fromkeys(found.mismatches))
        return found

    def _look(self, found: Findings, data_dir: str | Path | None) -> None:
        """Add mismatches and missing data; a subclass adds those of its task."""
        inputs = InputInfo()
        with found.of("data"):
            inputs = self.describe_inputs(data_dir)
        if inputs.missing:
            found.missing.append(inputs.missing)
        found.mismatches += self.mismatches(inputs)

    def _look_at_batches(self, found: Findings, samples: int) -> None:
        """Add a mismatch if there are too few training samples for one batch."""
        if samples < self._loaded_batch:
            found.mismatches.append(f"batch: {samples} training samples make no batch of {self._loaded_batch}")

    @abstractmethod
    def build(self, data: Any, accelerator: Accelerator) -> Task:
        """The task with its networks and its evaluation data; ``data`` is what :meth:`load` returned."""

    @abstractmethod
    def prepare_training(self, task: Any, data: Any, accelerator: Accelerator) -> Plan:
        """Give a task that :meth:`build` made its batches, optimizers and schedules; return how long to train."""

    def training_batches(
        self, samples: SampleSet, transform: Transform, accelerator: Accelerator, *, prefetch: int = 0
    ) -> Batches:
        """The batches of one process, shuffled; an update takes ``accumulate`` of them."""
        return Batches(
            samples,
            self._loaded_batch,
            transform=transform,
            shuffle=True,
            drop_last=True,
            seed=self.seed,
            prefetch=prefetch,
            rank=accelerator.process_index,
            world_size=accelerator.num_processes,
        )

    def plan(self, batches: Batches) -> Plan:
        """All epochs, each one pass over the batches."""
        return self.plan_epochs(max(1, len(batches) // self.accumulate))

    def plan_epochs(self, steps_per_epoch: int) -> Plan:
        """All epochs, with this many updates each."""
        return Plan(
            steps=self.epochs * steps_per_epoch,
            steps_per_epoch=steps_per_epoch,
            checkpoint_every=self.checkpoint_every,
            log_every=self.log_every,
        )


@torch.no_grad()
def output_shape(network: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The output shape for one input of the given shape, without the batch; torch's random state is not changed."""
    with evaluating(network), torch.random.fork_rng(devices=[]):
        return tuple(network(torch.zeros(1, *shape)).shape[1:])


def evaluation_batches(
    splits: Splits[Any],
    split: Split,
    size: int,
    transform: Transform,
    accelerator: Accelerator,
    *,
    prefetch: int = 0,
) -> Batches:
    """One process's share of a split, once through.

    Args:
        splits: All samples.
        split: The split to take.
        size: Batch size over all processes, rounded down to a multiple of their number.
        transform: Applied to every batch.
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


# ------------------------------------------------------------------------------------------------------------ by name

Made = TypeVar("Made", bound=Recipe)
Made_co = TypeVar("Made_co", bound=Recipe, covariant=True)


class Maker(Protocol[Made_co]):
    """A registered function."""

    __qualname__: str

    def __call__(self, scale: Scale = "full") -> Made_co: ...


_MAKERS: dict[str, Maker[Recipe]] = {}


def recipe(make: Callable[[Scale], Made]) -> Maker[Made]:
    """Register a function that makes a recipe under the function's name. Importing its module again replaces it.

    The recipe gets that name and the scale that was asked for, also where the function derives it from another recipe.
    """

    @wraps(make)
    def named(scale: Scale = "full") -> Made:
        if scale not in get_args(Scale):
            raise RecipeError(f"scale must be one of {', '.join(get_args(Scale))}, got {scale!r}")
        made = make(scale)
        if scale != "full" and made == make("full"):
            raise RecipeError(f"{make.__name__} has no {scale} scale")
        return replace(made, name=make.__name__, scale=scale)

    taken = _MAKERS.get(make.__name__, named)
    if (taken.__module__, taken.__qualname__) != (named.__module__, named.__qualname__):
        raise ValueError(f"there already is a recipe named {make.__name__!r}, in {taken.__module__}")
    _MAKERS[make.__name__] = named
    return named


def list_recipes() -> list[str]:
    """The names of all recipes."""
    return sorted(_MAKERS)


def get_recipe(name: str, scale: Scale = "full", changes: Iterable[str] = ()) -> Recipe:
    """Make a recipe by name, with changes such as ``"optimizer.lr=0.05"``.

    Args:
        name: A registered name, or a variant of it, ``"NAME:KEY=VALUE"``: its changes become part of the recipe's name,
            so that variants have run folders of their own and can be compared.
        scale: The scale to make it at.
        changes: Applied before those of a variant; the recipe keeps its name.

    >>> get_recipe("cifar10_resnet18").epochs
    120
    >>> get_recipe("cifar10_resnet18:optimizer.lr=0.05:clip=1").name
    'cifar10_resnet18-optimizer.lr=0.05-clip=1'
    >>> get_recipe("cifar10_resnet_18")
    Traceback (most recent call last):
    pinets.engine.values.RecipeError: there is no recipe 'cifar10_resnet_18'; did you mean 'cifar10_resnet18'?
    """
    name, own = split_variant(name)
    made = change_recipe(_maker(name)(scale), changes, own)
    if made.name != name and made.name in _MAKERS:
        raise RecipeError(f"name: {made.name!r} is another recipe, whose runs must not be mixed with those of {name!r}")
    return made


def split_variant(text: str) -> tuple[str, list[str]]:
    """The name of a recipe, and the changes that make a variant of it.

    >>> split_variant("cifar10_resnet18:optimizer.lr=0.05:clip=1")
    ('cifar10_resnet18', ['optimizer.lr=0.05', 'clip=1'])
    """
    # a colon begins a change only if a key and "=" follow: values may hold colons
    name, *own = re.split(r":(?=[A-Za-z_][\w.]*=)", text)
    return name, own


def change_recipe(base: Recipe, changes: Iterable[str] = (), own: Sequence[str] = ()) -> Recipe:
    """A recipe with changes, of which its ``own`` make it a variant and become part of its name."""
    every = [*changes, *own]
    if "scale" in keys_of(every):
        raise RecipeError("scale stands for many values: it is chosen with the recipe, not changed alone")
    if wrong := keys_of(own) & {"name", "seed"}:
        raise RecipeError(f"{wrong.pop()} cannot distinguish variants: a variant gets a name, and is run with any seed")
    made = set_values(base, every)
    return replace(made, name=_variant_name(made.name, own)) if own else made


def keys_of(changes: Iterable[str]) -> set[str]:
    """The keys that changes such as ``"seed=3"`` are about."""
    return {change.partition("=")[0].strip() for change in changes}


def recipe_notes(name: str) -> str:
    """The docstring of a recipe: the paper's figure, ours, and the command."""
    return inspect.getdoc(_maker(name)) or ""


class UnknownRecipeError(RecipeError):
    """The run's recipe is of an unknown class."""


def recipe_from_json(content: Any) -> Recipe:
    """The recipe of a run folder's ``recipe.json``."""
    kinds = {kind.__name__: kind for kind in _subclasses(Recipe)}
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise UnknownRecipeError(
            f"a recipe must be of kind {known}; got {kind!r}: if a Python file of yours defines that, execute it first"
        )
    return from_json(kinds[kind], content)


def _maker(name: str) -> Maker[Recipe]:
    if name not in _MAKERS:
        near = did_you_mean(name, _MAKERS) or "; pinets list recipes names them all"
        raise RecipeError(f"there is no recipe {name!r}{near}")
    return _MAKERS[name]


def _variant_name(name: str, changes: Sequence[str]) -> str:
    """A folder's name that tells variants apart; a checksum follows where it cannot hold all of the changes."""
    told = "-".join([name, *changes])
    plain = re.sub(r"[^\w.,=+-]+", "_", told)[:100]
    return plain if plain == told else f"{plain}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def _subclasses(parent: type[Any]) -> Iterable[type[Any]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)
