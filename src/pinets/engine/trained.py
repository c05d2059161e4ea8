"""A run that was trained: its recipe, its data, and its networks with their newest weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pinets import spec
from pinets._limits import limited
from pinets._nearest import did_you_mean
from pinets.engine.model import Model, without_first_weights
from pinets.engine.recipe import InputInfo, Recipe, recipe_from_json
from pinets.engine.run import RunFolder
from pinets.engine.values import from_json

__all__ = ["TrainedRun"]


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A run folder, read as far as it is asked for.

    Args:
        path: The run folder.
        data_dir: Where datasets are looked for; where they were in training if left out.
    """

    path: str | Path
    data_dir: str | Path | None = None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe the run was trained with."""
        return recipe_from_json(self.folder.recipe())

    @cached_property
    def data(self) -> Any:
        """The data as the recipe loads them, once."""
        loaded = self.recipe.load(self.folder.data_folder(self.data_dir))
        self.folder.require_same_kind(loaded.train)
        return loaded

    @cached_property
    def inputs(self) -> InputInfo:
        """Shape, classes and preprocessing of the inputs, as far as they are known. Nothing is downloaded for it."""
        if (noted := self.folder.inputs()) is not None:
            return from_json(InputInfo, noted, f"{self.folder.data_file}: inputs")
        if "data" in vars(self) and hasattr(self.data, "describe"):
            info: InputInfo = self.data.describe()
        else:
            info = self.recipe.describe_inputs(self.folder.data_folder(self.data_dir))
            self.folder.require_same_classes(info.classes)
        return info

    def network(self, name: str | None = None) -> nn.Module:
        """A network with its newest weights, in evaluation mode.

        The run may be a stranger's: its networks are first built on the meta device within limits, and compared with
        the weights, before anything is allocated.

        Args:
            name: Which of the run's networks; its only one, or the one named ``model``, if left out.
        """
        recipe, checkpoint = without_first_weights(self.recipe), self.folder.newest_checkpoint()
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            measured = _measured(recipe, checkpoint.shared["networks"])
            name = name or ("model" if "model" in measured else next(iter(measured)) if len(measured) == 1 else "")
            if name not in measured:
                wrong = f"there is no network {name!r}{did_you_mean(name, measured)}" if name else "choose a network"
                raise ValueError(f"{wrong}: the run in {self.path} has {', '.join(measured)}")
            if (expected := measured[name]) is not None:
                checkpoint.require_fits(name, expected)
            network = recipe.rebuild(lambda: self.data)[name]
        checkpoint.require_fits(name, network)
        network.load_state_dict(checkpoint.shared["networks"][name])
        return network.eval()

    def expression(self, network: nn.Module) -> str | None:
        """The expression of :mod:`pinets.spec` that builds the run's network; None if there is none."""
        model, classes = getattr(self.recipe, "model", None), getattr(self.recipe.data, "classes", None)
        if not isinstance(model, Model):
            return None
        text = model.name
        if not model.is_expression:
            arguments = {**({} if classes is None else {"num_classes": classes}), **model.options}
            text = f"{model.name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        try:
            with torch.random.fork_rng(devices=[]):
                return None if spec.misfit(text, network.state_dict()) else text
        except (ValueError, TypeError, RuntimeError):
            return None


def _measured(recipe: Recipe, saved: dict[str, Any]) -> dict[str, nn.Module | None]:
    """The networks of a recipe on the meta device; None for a network that an expression builds."""
    model = getattr(recipe, "model", None)
    if isinstance(model, Model) and model.is_expression:
        spec.misfit(model.name, saved.get("model", {}))  # for its limits alone: the head may be another
        return {"model": None}
    with torch.device("meta"), limited():
        return dict(recipe.networks())
