"""Arguments that several verbs take: MODEL and the shape of its input."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pinets._nearest import did_you_mean
from pinets.cli.parser import Parser, UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pinets.recipes import Trained

__all__ = [
    "MODEL_HELP",
    "add_model",
    "built_from",
    "example_input",
    "indices",
    "input_of_run",
    "positive",
    "read_array",
    "read_model",
    "read_model_and_input",
    "shape",
]

MODEL_HELP = """MODEL is one of
  an expression     "Sequential(CCP(16, 8, rank=8, order=2), Linear(8, 4))", of
                    layers of pinets and torch.nn, with random weights (always
                    the same); operators are given as op=Conv2d(kernel_size=3)
  a model's name    resnet50, or with arguments "resnet18_cifar(width=16)";
                    pinets list models shows them
  a name in Python  package.module:name or path/to/file.py:name, which is a
                    module or a function that makes one
  a file            model.safetensors, as pinets.spec.save writes it
  a run folder      runs/mnist_ccp4-small/seed-0, with its weights"""

_TARGET = re.compile(r"(?P<place>[^():,=]+):(?P<name>\w+)")


def add_model(parser: Parser) -> None:
    """Add MODEL and ``--input``, to be read with :func:`read_model_and_input`."""
    parser.add_argument(
        "model", metavar="MODEL", help="expression, name, file.py:name, file.safetensors, or a run folder"
    )
    parser.add_argument(
        "--input",
        metavar="SHAPE",
        type=shape,
        help="shape of one input without the batch, as 16 or 3,32,32; told from the first operator if left out",
    )


def shape(text: str) -> tuple[int, ...]:
    """Read a shape.

    >>> shape("3,32,32"), shape("16")
    ((3, 32, 32), (16,))
    """
    sizes = re.split("[,x]", text)
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"expected a shape such as 16 or 3,32,32, got {text!r}")
    return tuple(map(int, sizes))


def indices(text: str) -> tuple[int, ...]:
    """Read numbers from 0 on.

    >>> indices("0,10,20")
    (0, 10, 20)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers from 0 on, as 0,10,20; got {text!r}")
    return tuple(map(int, parts))


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def read_model_and_input(text: str, given: tuple[int, ...] | None) -> tuple[nn.Module, Tensor]:
    """The model that MODEL stands for, and an input of the given shape, or of one that fits."""
    if not Path(text).is_dir():
        model = read_model(text)
        return model, example_input(model, given)
    from pinets import recipes

    found = recipes.trained(text)
    return found.network, example_input(found.network, given or input_of_run(found))


def input_of_run(found: Trained) -> tuple[int, ...] | None:
    """The shape of what a run was trained on; where its data are not there to tell, of what its model usually takes."""
    from pinets.models import list_models, model_entry

    name = getattr(getattr(found.recipe, "model", None), "name", None)
    return found.input_shape or (model_entry(name).input_shape if name in list_models() else None)


def read_model(text: str) -> nn.Module:
    """The model that MODEL stands for where it is not a run folder."""
    import torch

    from pinets import spec

    if text.endswith(".safetensors"):
        return spec.load(text)[0]
    if target := _TARGET.fullmatch(text):
        return _named(target["place"], target["name"])
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return spec.build(_expression(text))
    except spec.ExpressionError as error:
        place = "there is no such folder, and as an expression: " if re.fullmatch(r"[\w./\\-]+", text) else ""
        raise UsageError(f"MODEL {text!r}: {place}{error}") from error


def built_from(text: str) -> str | None:
    """What builds the model that MODEL stands for, where it is not a run folder; None for a name in Python."""
    from pinets import spec

    if text.endswith(".safetensors"):
        return spec.load(text)[1]["model"]
    return None if _TARGET.fullmatch(text) else _expression(text)


def _expression(text: str) -> str:
    """MODEL as an expression: a name alone is the model without arguments."""
    return f"{text}()" if text.isidentifier() else text


def example_input(model: nn.Module, given: tuple[int, ...] | None) -> Tensor:
    """A random input of the given shape, or of the one that the model's first operator takes."""
    import torch

    from pinets.spec import infer_input

    size = given or infer_input(model)
    if size is None:
        raise UsageError("the shape of the input cannot be told from the model; give it with --input, as 3,32,32")
    parameter = next(model.parameters(), None)
    dtype = parameter.dtype if parameter is not None and parameter.is_floating_point() else None
    return torch.randn(1, *size, generator=torch.Generator().manual_seed(0), dtype=dtype)


def read_array(path: str) -> Any:
    """An array of numbers from a .npy file, from which nothing is ever executed."""
    import numpy as np

    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with open(path, "rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        raise UsageError(f"{path} is not an array of numbers in a .npy file: {error}") from error
    if array.dtype.kind not in "fiu":
        raise UsageError(f"{path} must hold numbers, got {array.dtype}")
    return array


def _named(place: str, name: str) -> nn.Module:
    from torch import nn

    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    if not hasattr(module, name):
        raise UsageError(f"{place} has no {name!r}{did_you_mean(name, vars(module))}")
    found = getattr(module, name)
    if not isinstance(found, nn.Module) and callable(found):
        found = found()
    if not isinstance(found, nn.Module):
        raise UsageError(f"{place}:{name} must be a module or a function that makes one, got {type(found).__name__}")
    return found


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"_pinets_model_{path.stem}"  # a name of its own, or a json.py would stand in for Python's json
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path} cannot be imported")
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
        raise UsageError(f"there is no Python module {name!r} (looked for {error.name!r})") from error


def _search_also(folder: Path) -> None:
    """Import from a folder what the installed packages do not have, as scripts do from theirs."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
