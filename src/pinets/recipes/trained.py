"""The networks of a run, with what somebody needs who uses them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pinets._nearest import did_you_mean
from pinets.data import DataError, speech_features
from pinets.recipes.classification import Images, Speech
from pinets.recipes.recipe import Recipe
from pinets.recipes.registry import recipe_from_json
from pinets.recipes.values import to_json
from pinets.train.checkpoint import Checkpoints
from pinets.train.run import RunFolder

__all__ = ["Trained", "trained"]


@dataclass(frozen=True)
class Trained:
    """A network with the newest weights of a run, in evaluation mode.

    Attributes:
        network: The network.
        recipe: What it was trained with.
        input_shape: Of one input; None if the data set is not there to tell.
        classes: Their names; None if there are none or the data set is not there to tell.
        preprocessing: What is done to an input before the network, as data; None as for ``classes``.
        missing: Why the data set could not be asked; empty if it could.
    """

    network: nn.Module
    recipe: Recipe
    input_shape: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    preprocessing: Any = None
    missing: str = ""


def trained(path: str | Path, *, network: str | None = None, data_dir: str | Path | None = None) -> Trained:
    """Read a network from a run folder, refusing a checkpoint that is damaged or of another recipe.

    Args:
        path: The run folder.
        network: Which of the run's networks; its only one, or the one named ``model``, if left out.
        data_dir: Where data sets are looked for; nothing is downloaded.
    """
    run = RunFolder(path)
    recipe = recipe_from_json(run.recipe())
    checkpoint = Checkpoints(run.checkpoints_folder, run.owner()).newest()
    if checkpoint is None:
        raise FileNotFoundError(f"the run in {path} has no checkpoint yet")
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        networks = recipe.networks()
    name = network or ("model" if "model" in networks else next(iter(networks)) if len(networks) == 1 else "")
    if name not in networks:
        chosen = f"there is no network {name!r}{did_you_mean(name, networks)}" if name else "choose a network"
        raise ValueError(f"{chosen}: the run in {path} has {', '.join(networks)}")
    chosen_network = networks[name]
    chosen_network.load_state_dict(checkpoint.shared["networks"][name])
    return Trained(chosen_network.eval(), recipe, **_from_data(recipe, data_dir))


def _from_data(recipe: Recipe, data_dir: str | Path | None) -> dict[str, Any]:
    """What only the data can tell, where that is cheap to ask: mean and deviation of the images, names of classes."""
    data = getattr(recipe, "data", None)
    if isinstance(data, Speech):
        return {"preprocessing": repr(speech_features())}
    if not isinstance(data, Images):
        return {}
    try:
        inputs = data.load(data_dir, download=False)
    except (DataError, OSError) as error:
        return {"missing": str(error)}
    test = inputs.splits.test
    first = inputs.evaluation(test.read(torch.tensor([0]), torch.zeros(1, test.draws)))
    return {
        "input_shape": tuple(first.shape[1:]),
        "classes": tuple(inputs.splits.train.classes),
        "preprocessing": to_json(inputs.evaluation),
    }
