"""Turn a finished run into a file of weights with its card."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import pinets
from pinets._files import write_bytes
from pinets.algebra import TraceError, certify
from pinets.engine.model import Model
from pinets.engine.recipe import Recipe, get_recipe, list_recipes
from pinets.engine.trained import TrainedRun
from pinets.engine.values import to_json
from pinets.models import Card, ImageGenerator, StyleGenerator, list_models, model_entry
from pinets.models.pretrained import save_weights
from pinets.tasks.classification.recipe import ClassificationRecipe

__all__ = ["publish", "training_command"]

_BATCH = 500
_EXAMPLES = 64  # random inputs that show what rounding changes, for networks without test inputs
_SMALL = 1e-2  # the largest relative change of an output by rounding, for networks without an accuracy


def publish(
    run: str | Path, name: str, folder: str | Path, *, summary: str = "", data_dir: str | Path | None = None
) -> Card:
    """Write ``NAME.safetensors`` and ``NAME.md``: the weights of a finished run, and their card.

    Matrices and kernels are stored in float16 if that loses nothing: a classifier's test accuracy must not fall. The
    accuracy of the card is that of the stored weights, in float32.

    Args:
        run: The run folder.
        name: The name of the weights.
        folder: Where to write.
        summary: One line about the weights; made from the recipe if left out.
        data_dir: Where datasets are; by default where they were in training.
    """
    if not name.isidentifier():
        raise ValueError(f"the name of weights must be a Python identifier, got {name!r}")
    if name in list_models():
        raise ValueError(f"{name} is the name of a model, which a command would take for it; choose another")
    trained = TrainedRun(run, data_dir)
    if not trained.folder.finished:
        raise ValueError(f"{run} is not a finished run: there is no result in it")
    recipe, network = trained.recipe, trained.network()
    options = _options(recipe)
    card = Card(
        name=name,
        summary=summary,
        model=recipe.model.name,  # type: ignore[attr-defined]
        options=options,
        input_shape=_input_shape(trained, network),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        polynomial=False,
        data=recipe.data.name,
        command=training_command(recipe),
        classes=trained.inputs.classes,
        preprocessing=trained.inputs.preprocessing,
        recipe=to_json(recipe),
        version=pinets.__version__,
    )
    with suppress(TraceError):
        certificate = certify(network, torch.randn(1, *card.input_shape))
        card = replace(card, polynomial=certificate.polynomial, degree=str(certificate.degree or ""))
    stored, card = _measured(card, network, trained)
    accuracy = f", {100 * card.metrics['accuracy']:.2f} % on its test images" if "accuracy" in card.metrics else ""
    degree = f", a polynomial of degree {card.degree}" if card.polynomial else ""
    told = summary or f"{card.model} trained on {card.data}{degree}{accuracy}"
    card = replace(card, summary=told, limits=_limits(card))
    save_weights(Path(folder) / f"{name}.safetensors", stored, card)
    write_bytes(Path(folder) / f"{name}.md", card.markdown().encode())
    return card


def training_command(recipe: Recipe) -> str:
    """The command that trains a recipe, with its changes.

    >>> training_command(get_recipe("mnist_ccp4", "small", ["epochs=3", "model.rank=8"]))
    'pinets train mnist_ccp4 --scale small --set epochs=3 --set model.rank=8'
    """
    base = next((n for n in sorted(list_recipes(), key=len, reverse=True) if recipe.name.startswith(n)), None)
    if base is None:
        return ""
    known = replace(get_recipe(base, recipe.scale), name=recipe.name)
    scale = "" if recipe.scale == "full" else f" --scale {recipe.scale}"
    changes = [
        f"{key.replace('model.options.', 'model.')}={_as_text(value)}"
        for key, value in _changes(to_json(known), to_json(recipe))
    ]
    return f"pinets train {base}{scale}" + "".join(f" --set {shlex.quote(change)}" for change in changes)


def _changes(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The keys to set in the old values to get the new ones; a part of another kind is named before its values."""
    if not isinstance(new, dict):
        if old != new:
            yield key, new
        return
    before = old if isinstance(old, dict) else {}
    if before.get("kind") != new.get("kind"):
        yield key, new["kind"]
    for name, value in new.items():
        if name != "kind" and (name not in before or before[name] != value):
            yield from _changes(before.get(name), value, f"{key}.{name}" if key else name)


def _as_text(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _input_shape(trained: TrainedRun, network: nn.Module) -> tuple[int, ...]:
    if isinstance(network, ImageGenerator | StyleGenerator):
        return (network.latent,)
    return trained.inputs.shape or model_entry(trained.recipe.model.name).input_shape  # type: ignore[attr-defined]


def _options(recipe: Recipe) -> dict[str, Any]:
    model = getattr(recipe, "model", None)
    if not isinstance(model, Model) or model.is_expression:
        raise ValueError(f"{recipe.name} trains no registered model with plain options: only those can be published")
    classes = {"num_classes": recipe.data.classes} if isinstance(recipe, ClassificationRecipe) else {}
    options: dict[str, Any] = to_json({**classes, **model.options})  # as the card reads them back: lists, not tuples
    return options


def _measured(card: Card, network: nn.Module, trained: TrainedRun) -> tuple[nn.Module, Card]:
    """The network as it is stored, and the card with what it was measured at."""
    rounded = _rounded(network)
    if not isinstance(trained.recipe, ClassificationRecipe):
        inputs = torch.randn(_EXAMPLES, *card.input_shape)
        change = _largest_change(_outputs(network, inputs), _outputs(rounded, inputs))
        known = replace(card, metrics=trained.folder.result()["test"])
        if change > _SMALL:
            return network, known
        return rounded, replace(known, precision="float16", changed={"largest_relative_change": change})
    inputs, labels = trained.data.read("test", len(trained.data.splits.test))
    plain, low = _outputs(network, inputs), _outputs(rounded, inputs)
    right = [float((outputs.argmax(1) == labels).double().mean()) for outputs in (plain, low)]
    if right[1] < right[0]:
        return network, replace(card, metrics={"accuracy": right[0]})
    changed = {
        "share_of_predictions_that_changed": float((plain.argmax(1) != low.argmax(1)).double().mean()),
        "largest_relative_change": _largest_change(plain, low),
    }
    return rounded, replace(card, metrics={"accuracy": right[1]}, precision="float16", changed=changed)


def _rounded(network: nn.Module) -> nn.Module:
    """The network with matrices and kernels rounded to float16, computing as before."""
    rounded = deepcopy(network)
    with torch.no_grad():
        for tensor in rounded.state_dict().values():
            if tensor.is_floating_point() and tensor.ndim > 1:
                tensor.copy_(tensor.half().to(tensor.dtype))
    return rounded


def _outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([network(batch) for batch in inputs.split(_BATCH)])


def _largest_change(before: Tensor, after: Tensor) -> float:
    change = (after - before).abs().max() / before.abs().max()
    return float(change) if change.isfinite() else float("inf")


def _limits(card: Card) -> tuple[str, ...]:
    limits = [f"inputs unlike those of {card.data}: it was measured on that test split alone"]
    if card.polynomial:
        limits.append(
            f"inputs outside the range of the data: a polynomial of degree {card.degree} has no bound "
            f"(`pinets stress {card.name}` measures how far it goes)"
        )
    limits.append("decisions about people; it is here to try the library with")
    return tuple(limits)
