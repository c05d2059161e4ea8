"""Nested states (of optimisers, schedules, random generators) as tensors for safetensors and a skeleton for JSON.

No pickle: what is neither a tensor nor plain data is refused when it is saved, not when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["non_finite_names", "pack", "unpack"]

_TENSOR, _TUPLE, _ITEMS = "tensor:", "tuple:", "items:"  # the single key of a dictionary that stands for something else


def pack(state: Any, prefix: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """Split a nested state into a JSON skeleton and named tensors.

    >>> skeleton, tensors = pack({"lr": 0.1, "moments": (torch.zeros(2), 3)})
    >>> skeleton
    {'lr': 0.1, 'moments': {'tuple:': [{'tensor:': 'state.moments.0'}, 3]}}
    >>> sorted(tensors)
    ['state.moments.0']
    >>> unpack(skeleton, tensors)
    {'lr': 0.1, 'moments': (tensor([0., 0.]), 3)}
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            while path in tensors:  # {"a": {"b": t}, "a.b": t}
                path += "'"
            # a copy of its own: safetensors refuses tensors that share memory, and the run goes on meanwhile
            tensors[path] = value.detach().to("cpu", copy=True).contiguous()
            return {_TENSOR: path}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.endswith(":") for key in value):
                return {key: walk(item, f"{path}.{key}") for key, item in value.items()}
            return {_ITEMS: [[walk(key, path), walk(item, f"{path}.{key}")] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {_TUPLE: [walk(item, f"{path}.{index}") for index, item in enumerate(value)]}
        if isinstance(value, list):
            return [walk(item, f"{path}.{index}") for index, item in enumerate(value)]
        raise TypeError(f"{path} is a {type(value).__name__}; a state holds tensors, numbers, strings and containers")

    return walk(state, prefix), tensors


def unpack(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of :func:`pack`."""
    if isinstance(skeleton, list):
        return [unpack(item, tensors) for item in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if len(skeleton) == 1:
        ((key, value),) = skeleton.items()
        if key == _TENSOR:
            return tensors[value]
        if key == _TUPLE:
            return tuple(unpack(item, tensors) for item in value)
        if key == _ITEMS:
            return {unpack(name, tensors): unpack(item, tensors) for name, item in value}
    return {key: unpack(value, tensors) for key, value in skeleton.items()}


def non_finite_names(tensors: Mapping[str, Tensor]) -> list[str]:
    """Which of the tensors hold an infinity or a NaN.

    >>> non_finite_names({"weight": torch.tensor([1.0, float("nan")]), "bias": torch.zeros(2)})
    ['weight']
    """
    return [name for name, tensor in tensors.items() if tensor.is_floating_point() and not torch.isfinite(tensor).all()]
