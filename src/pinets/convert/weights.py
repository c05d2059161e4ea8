"""Weights in files: read without running anything that is in them, and loaded only into the network they are of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets._files import PathLike

__all__ = ["load_weights", "read_metadata"]


def load_weights(network: nn.Module, path: PathLike) -> None:
    """Load a state dict, as safetensors or as ``torch.save`` wrote it; every error names the file.

    It is also found in a training checkpoint, as ``state_dict`` or ``model``, and with the names that
    ``nn.DataParallel`` and ``torch.compile`` give to weights.

    Args:
        network: Whose weights these must be, all of them and no others.
        path: A ``.safetensors`` file; any other is taken for one of torch.
    """
    path = _require_file(path)
    state = _read_safetensors(path)[0] if path.suffix == ".safetensors" else _read_pickle(path)
    if not isinstance(state, Mapping):
        raise ValueError(f"{path} does not hold the weights of this model: it holds {type(state).__name__}")
    expected = network.state_dict()
    if state.keys() != expected.keys():
        state = _without_wrappers(state)
    if difference := _difference(expected, state):
        raise ValueError(f"{path} does not hold the weights of this model: {difference}")
    network.load_state_dict(state)


def read_metadata(path: PathLike) -> dict[str, str]:
    """The texts beside the weights in a safetensors file, such as the expression that ``pinets.spec`` keeps there."""
    return _read_safetensors(_require_file(path))[1]


def _require_file(path: PathLike) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return Path(path)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    safetensors = require("safetensors", extra="train")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in list(file.keys())}, dict(file.metadata() or {})
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file: {error}") from error


def _read_pickle(path: Path) -> Any:
    """What ``torch.save`` wrote, only as far as torch knows it to be harmless."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file may make a reader of pickles raise
        raise ValueError(
            f"{path} does not hold the weights of this model: it is damaged, or holds more than tensors, which could "
            f"run anything when it is opened; save model.state_dict() alone"
        ) from error


def _without_wrappers(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights alone, under the names that the network itself gives them.

    >>> _without_wrappers({"epoch": 3, "state_dict": {"module.fc.weight": 1, "module.fc.bias": 2}})
    {'fc.weight': 1, 'fc.bias': 2}
    """
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), Mapping):
            state = state[key]
            break
    for prefix in ("module.", "_orig_mod."):
        if state and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The first way in which two state dicts differ, or nothing."""
    for name, value in expected.items():
        if name not in found:
            return f"{name} is missing"
        shapes = [tuple(getattr(tensor, "shape", ())) for tensor in (value, found[name])]
        if shapes[0] != shapes[1]:
            return f"{name} should have shape {shapes[0]}, has {shapes[1]}"
    return next((f"{name} is not part of it" for name in found if name not in expected), "")
