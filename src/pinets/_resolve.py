"""One answer to "which network?": an expression, a model's name, a name in a Python file, a file or a run folder."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets import spec
from pinets._nearest import did_you_mean
from pinets._storage import read_metadata
from pinets.algebra.inputs import infer_input_shape
from pinets.models import Card, list_models, list_weights, load_weights, model_entry

if TYPE_CHECKING:
    from pinets.engine.recipe import Recipe
    from pinets.engine.trained import TrainedRun

__all__ = ["ResolveError", "Resolved", "import_file", "named_in_python", "resolve"]

_NAME_IN_PYTHON = re.compile(r"(?P<place>[^():,=]+):(?P<name>\w+)")
# the look behind makes it start only where a word does, which keeps it linear in the length of the text
_NAME_IN_FILE = re.compile(r"(?<![^\s():,=\[\]])(?P<place>[^\s():,=\[\]]+\.py):(?P<name>\w+)(?P<called>\s*\()?")


class ResolveError(ValueError):
    """A text that stands for no network; the message says why."""


@dataclass(frozen=True, eq=False)
class Resolved:
    """A network, and what is known about its inputs.

    Attributes:
        text: What was resolved.
        network: The network, in evaluation mode.
        expression: The :mod:`pinets.spec` expression that builds it; None if there is none.
        run: The run it was trained in; None where it is not from a run.
        card: The card of its weights; None where they have none.
        data_dir: Where datasets are looked for.
        estimator: The estimator whose polynomial it is; None where it is of none.
    """

    text: str
    network: nn.Module
    expression: str | None = None
    run: TrainedRun | None = None
    card: Card | None = None
    data_dir: str | Path | None = None
    estimator: Any = None

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe the network was trained with; None if neither a run nor a card tells."""
        if self.card is not None and self.card.recipe is not None:
            import pinets.tasks  # noqa: F401  all kinds of recipes are known then
            from pinets.engine.recipe import recipe_from_json

            return recipe_from_json(self.card.recipe)
        return None if self.run is None else self.run.recipe

    @cached_property
    def data(self) -> Any:
        """The data of training as the recipe loads them, once; None where neither a run nor a card tells."""
        if self.run is None and self.recipe is not None:
            return self.recipe.load(self.data_dir)
        return None if self.run is None else self.run.data

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes; None where there are none, or the data are not there to tell."""
        if self.card is not None:
            return self.card.classes
        if self.estimator is not None:
            names = getattr(self.estimator, "classes_", ())  # a classifier of two classes has a single score
            return tuple(map(str, names)) if len(names) > 2 else None
        return None if self.run is None else self.run.inputs.classes

    @property
    def preprocessing(self) -> Any:
        """The preprocessing of an input, as plain data; None if it is not known."""
        if self.card is not None:
            return self.card.preprocessing
        if self.estimator is not None:
            return {"kind": "Columns", "names": list(self.estimator.encoded_names())}
        return None if self.run is None else self.run.inputs.preprocessing

    @cached_property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of one input without the batch; None where nothing tells it.

        It is that of the run's data, else the usual one of a registered model, else that of the first operator.
        """
        return self._known_shape or infer_input_shape(self.network)

    @property
    def shape_is_assumed(self) -> bool:
        """Whether height and width are a guess, because the first operator takes any."""
        return self._known_shape is None and len(self.input_shape or ()) > 1

    @cached_property
    def _known_shape(self) -> tuple[int, ...] | None:
        if self.card is not None:
            return self.card.input_shape
        if self.run is not None and self.run.inputs.shape is not None:
            return self.run.inputs.shape
        model = self.expression if self.run is None else getattr(getattr(self.recipe, "model", None), "name", None)
        name = (model or "").partition("(")[0]
        return model_entry(name).input_shape if name in list_models() else None

    def example(self, shape: tuple[int, ...] | None = None) -> Tensor:
        """A random input with a batch of one, always the same, of the given shape or of :attr:`input_shape`."""
        size = shape or self.input_shape
        if size is None:
            raise ResolveError("the shape of the input cannot be told from the model; give it with --input, as 3,32,32")
        parameter = next(self.network.parameters(), None)
        dtype = parameter.dtype if parameter is not None and parameter.is_floating_point() else None
        return torch.randn(1, *size, generator=torch.Generator().manual_seed(0), dtype=dtype)


def resolve(text: str | Path, *, network: str | None = None, data_dir: str | Path | None = None) -> Resolved:
    """Find the network that a text stands for.

    The text is one of

    - an expression of :mod:`pinets.spec` such as ``"CCP(16, 4, rank=8, order=3)"``; its weights are random, and always
      the same;
    - the name of a registered model, such as ``"resnet50"``;
    - the name of trained weights, such as ``"mnist_ccp4"``;
    - ``"path/to/file.py:name"`` or ``"package.module:name"``, a module or a function that makes one. The Python file is
      executed: name your own. It may also stand inside an expression, as in ``"to_pinet(nets.py:resnet, tanh=True)"``;
    - a ``.safetensors`` file that :func:`pinets.spec.save` or ``pinets convert`` wrote;
    - a ``.skops`` file of a fitted estimator of :mod:`pinets.estimators`, whose polynomial is taken;
    - a run folder, whose newest weights are taken.

    Args:
        text: What to resolve.
        network: Which network of a run, where there are several.
        data_dir: Where datasets are looked for; where they were in training if left out.

    Example:
        >>> found = resolve("CCP(16, 4, rank=8, order=3)")
        >>> found.input_shape, found.network.order
        ((16,), 3)
        >>> resolve("resnet18_cifar(width=8)").input_shape
        (3, 32, 32)
    """
    text = str(text)
    if os.path.isdir(text):  # False for an expression that is longer than any path, where pathlib raises an error
        return _from_run(text, network, data_dir)
    if text.isidentifier() and text not in list_models() and text in list_weights():
        return _from_weights(text, data_dir)
    if text.endswith(".safetensors"):
        if "card" in read_metadata(text):
            return _from_weights(text, data_dir)
        module, metadata = spec.load(text)
        return Resolved(text, module.eval(), metadata["model"])
    if text.endswith(".skops"):
        from pinets.estimators.persistence import load_estimator  # which needs scikit-learn

        estimator = load_estimator(text)
        return Resolved(text, estimator.to_polynomial().eval(), estimator=estimator)
    if target := _NAME_IN_PYTHON.fullmatch(text):
        return Resolved(text, _made(named_in_python(target["place"], target["name"]), text).eval())
    if os.path.isfile(text):
        raise ResolveError(
            f"{text}: networks are read from .safetensors files, which pinets.spec.save writes, and from .skops"
        )
    return _from_expression(text)


def _from_weights(text: str, data_dir: str | Path | None) -> Resolved:
    module, card = load_weights(text)
    return Resolved(text, module, card.expression, card=card, data_dir=data_dir)


def _from_run(path: str, network: str | None, data_dir: str | Path | None) -> Resolved:
    import pinets.tasks  # noqa: F401  all kinds of recipes are known then
    from pinets.engine.trained import TrainedRun

    run = TrainedRun(path, data_dir)
    if not run.folder.exists:
        inside = sorted(str(file.parent) for file in Path(path).glob("*/recipe.json"))
        hint = f"; name one of its runs, as {inside[0]}" if inside else ""
        raise ResolveError(f"{path} is a folder, but not that of a run: there is no recipe in it{hint}")
    module = run.network(network)
    return Resolved(path, module, run.expression(module), run)


def _from_expression(text: str) -> Resolved:
    expression = f"{text}()" if text.isidentifier() else text
    known: dict[str, Any] = {}

    def stand_in(target: re.Match[str]) -> str:
        """A name as long as the file's and its own, so that errors name the right column."""
        found = named_in_python(target["place"], target["name"])
        name = f"_{len(known)}".ljust(target.end("name") - target.start(), "_")
        known[name] = found if target["called"] else _made(found, target[0])
        return name + (target["called"] or "")

    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = spec.build(_NAME_IN_FILE.sub(stand_in, expression), known)
    except spec.ExpressionError as error:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        if re.fullmatch(r"[\w.-]*[/\\][\w./\\-]+|[\w-]+\.\w+", text):
            raise ResolveError(f"there is no file or folder {shown}") from error
        path = "there is no such file or folder, and as an expression: " if re.fullmatch(r"[\w.-]+", text) else ""
        near = did_you_mean(text, list_weights())
        weights = near if path and "did you mean" in near and "did you mean" not in str(error) else ""
        raise ResolveError(f"MODEL {shown!r}: {path}{error}{weights}") from error
    return Resolved(text, module.eval(), None if known else expression)


def _made(found: Any, place: str) -> nn.Module:
    """A module, or what a function without arguments makes."""
    made = found() if callable(found) and not isinstance(found, nn.Module) else found
    if not isinstance(made, nn.Module):
        raise ResolveError(f"{place} must be a module or a function that makes one, got {type(made).__name__}")
    return made


def named_in_python(place: str, name: str) -> Any:
    """The object of the given name in a Python file, which is executed, or in an importable module."""
    module = import_file(place) if place.endswith(".py") else _import_module(place)
    if not hasattr(module, name):
        raise ResolveError(f"{place} has no {name!r}{did_you_mean(name, vars(module))}")
    return getattr(module, name)


def import_file(file: str | Path) -> ModuleType:
    """Execute a Python file."""
    path = Path(file)
    if not path.is_file():
        raise ResolveError(f"there is no file {path}")
    name = f"_pinets_model_{path.stem}"  # a name of its own, or a json.py would replace Python's json
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ResolveError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look themselves up there
    _search_also(path.resolve().parent)
    specification.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    _search_also(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # found, but something that it imports is missing
        raise ResolveError(f"there is no Python module {name!r} (looked for {error.name!r})") from error


def _search_also(folder: Path) -> None:
    """Import from a folder what the installed packages do not have, as scripts do from theirs."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
