"""The networks of a run, with what somebody needs who uses them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pinets import spec
from pinets._nearest import did_you_mean
from pinets.data import DataError, load, speech_features
from pinets.data.encoded import EncodedSet
from pinets.data.faces.pixels import FACE_PIXELS
from pinets.recipes.kinds.classification import Images, Speech
from pinets.recipes.kinds.faces import FacePack, LfwPeople
from pinets.recipes.kinds.model import Model, without_first_weights
from pinets.recipes.kinds.recipe import Recipe
from pinets.recipes.kinds.shapes import AutoencodingRecipe, Shapes
from pinets.recipes.provenance import data_folder, require_same_classes
from pinets.recipes.registry import recipe_from_json
from pinets.recipes.shapes import load_shape_model
from pinets.recipes.values import to_json
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
        expression: What builds the network, for :mod:`pinets.spec`; None where nothing does.
    """

    network: nn.Module
    recipe: Recipe
    input_shape: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    preprocessing: Any = None
    missing: str = ""
    expression: str | None = None


def trained(path: str | Path, *, network: str | None = None, data_dir: str | Path | None = None) -> Trained:
    """Read a network from a run folder, refusing a checkpoint that is damaged or of another recipe.

    Args:
        path: The run folder.
        network: Which of the run's networks; its only one, or the one named ``model``, if left out.
        data_dir: Where data sets are looked for; where they were in training if left out. Nothing is downloaded, unless
            an autoencoder of shapes needs their template.
    """
    run = RunFolder(path)
    recipe = recipe_from_json(run.recipe())
    checkpoint = run.newest_checkpoint()
    if isinstance(recipe, AutoencodingRecipe):  # its spirals are those of the template, which comes with the data
        networks = {"model": load_shape_model(path, data_dir=data_dir).network}
    else:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            networks = without_first_weights(recipe).networks()
    name = network or ("model" if "model" in networks else next(iter(networks)) if len(networks) == 1 else "")
    if name not in networks:
        chosen = f"there is no network {name!r}{did_you_mean(name, networks)}" if name else "choose a network"
        raise ValueError(f"{chosen}: the run in {path} has {', '.join(networks)}")
    chosen_network = networks[name]
    checkpoint.require_fits(name, chosen_network)
    chosen_network.load_state_dict(checkpoint.shared["networks"][name])
    known = _from_data(recipe, data_folder(run, data_dir))
    require_same_classes(run, list(known["classes"]) if known.get("classes") else None)
    return Trained(chosen_network.eval(), recipe, **known, expression=_expression(recipe, chosen_network))


def _expression(recipe: Recipe, network: nn.Module) -> str | None:
    """The recipe's model as a call, if that has the weights of the network."""
    model, classes = getattr(recipe, "model", None), getattr(getattr(recipe, "data", None), "classes", None)
    if not isinstance(model, Model):
        return None
    arguments = {**({} if classes is None else {"num_classes": classes}), **model.options}
    call = f"{model.name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    text = model.name if model.is_expression else call
    try:
        with torch.random.fork_rng(devices=[]):
            return None if spec.misfit(text, network.state_dict()) else text
    except (ValueError, TypeError, RuntimeError):
        return None


def _from_data(recipe: Recipe, data_dir: str | Path | None) -> dict[str, Any]:
    """What is done to inputs, and what only the data can tell: mean and deviation of the images, names of classes."""
    data = getattr(recipe, "data", None)
    if isinstance(data, Shapes):
        return {"input_shape": (data.vertices, 3)}
    if isinstance(data, FacePack | LfwPeople):
        return {"input_shape": (3, data.size, data.size), "preprocessing": to_json(FACE_PIXELS)}
    try:
        if isinstance(data, Speech):
            return _of_speech() | {"classes": tuple(load(data.name, data_dir, download=False).train.classes)}
        return _of_images(data, data_dir) if isinstance(data, Images) else {}
    except (DataError, OSError) as error:
        return (_of_speech() if isinstance(data, Speech) else {}) | {"missing": str(error)}


def _of_speech() -> dict[str, Any]:
    return {"input_shape": (1, 32, 32), "preprocessing": repr(speech_features())}


def _of_images(data: Images, data_dir: str | Path | None) -> dict[str, Any]:
    inputs = data.load(data_dir, download=False)
    test = inputs.splits.test
    first = inputs.evaluation(test.read(torch.tensor([0]), torch.zeros(1, test.draws)))
    cut = {"crop": to_json(test.crop)} if isinstance(test, EncodedSet) else {}  # while decoding
    return {
        "input_shape": tuple(first.shape[1:]),
        "classes": tuple(inputs.splits.train.classes),
        "preprocessing": {**to_json(inputs.evaluation), **cut},
    }
