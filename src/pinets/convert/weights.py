"""Load weights from files without executing them, and refuse the weights of another network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pinets._files import PathLike
from pinets._storage import difference, read_tensors

__all__ = ["load_weights"]


def load_weights(network: nn.Module, path: PathLike) -> None:
    """Load a state dict, as safetensors or as ``torch.save`` wrote it; every error names the file.

    The state dict may be part of a training checkpoint (as ``state_dict`` or ``model``), and its names may have the
    prefix of ``nn.DataParallel`` or ``torch.compile``.

    Args:
        network: Takes the weights; the file must have all of its weights and no others.
        path: A ``.safetensors`` file; any other ending is read with ``torch.load``.
    """
    path = Path(path)
    state = read_tensors(path)[0] if path.suffix == ".safetensors" else _read_pickle(path)
    if not isinstance(state, Mapping):
        raise ValueError(f"{path} does not hold the weights of this model: it holds {type(state).__name__}")
    expected = network.state_dict()
    if state.keys() != expected.keys():
        state = _without_wrappers(state)
    if found := difference(expected, state):
        raise ValueError(f"{path} does not hold the weights of this model: {found}")
    network.load_state_dict(state)


def _read_pickle(path: Path) -> Any:
    """Read a file of ``torch.save`` with ``weights_only=True``."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(
            f"{path} does not hold the weights of this model: it is damaged, or holds more than tensors, which could "
            f"execute code; save model.state_dict() alone"
        ) from error


def _without_wrappers(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict inside a checkpoint, without the prefixes of wrappers.

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
