"""Networks and inputs of which something exact can be said; others are refused."""

from __future__ import annotations

import copy
import itertools
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets.polynomial import Polynomial

__all__ = ["Inputs", "check_inputs", "example_for", "on_cpu", "require_rows_apart"]

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
Example = TypeVar("Example", bound=Inputs)


def example_for(model: nn.Module, example: Example | None) -> Example | Tensor:
    """The example given, or an input of the shape that a first ``nn.Linear`` takes."""
    _require_module(model)
    if example is not None:
        return example
    for module in model.modules():
        first = module.start if isinstance(module, Polynomial) else module
        if isinstance(first, nn.Linear):
            return first.weight.new_zeros(1, first.in_features)
        if next(first.parameters(recurse=False), None) is not None:
            break
    raise ValueError(
        "the shape of the input cannot be told from the network; give an example, such as torch.zeros(1, 3, 32, 32)"
    )


def check_inputs(example: Inputs) -> tuple[Tensor, ...]:
    """The inputs as a tuple, refused where nothing exact can be said with them."""
    inputs = example if isinstance(example, tuple) else (example,)
    for value in inputs:
        if not isinstance(value, Tensor):
            raise TypeError(f"the input must be a tensor or a tuple of tensors, got {type(value).__name__}")
        if not value.is_floating_point():
            raise TypeError(f"the input must be of a floating-point type, got {value.dtype}; convert it with .float()")
        if not value.numel():
            raise ValueError(f"the input must have elements, got shape {tuple(value.shape)}")
        if not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise ValueError(f"the input must be finite, got {bad} of {value.numel()} values that are NaN or infinite")
    return inputs


def require_rows_apart(model: nn.Module, example: Tensor) -> None:
    """Refuse a network whose outputs for one row depend on the other rows of the batch, where one row stands for all.

    Tried with two random rows; networks that take no two are left alone.
    """
    rows = torch.randn((2, *example.shape[1:]), generator=torch.Generator().manual_seed(0)).to(example)
    with evaluating(model), torch.no_grad():
        try:
            both, alone = model(rows), model(rows[:1])
        except RuntimeError:
            return
    if not isinstance(both, Tensor) or not isinstance(alone, Tensor) or both.shape[1:] != alone.shape[1:]:
        return
    size = both.abs().max()
    if size.isfinite() and (both[:1] - alone).abs().max() > 1e-2 * size:
        raise ValueError("what the network gives for one row of a batch depends on the other rows")


def on_cpu(model: nn.Module) -> nn.Module:
    """The network, or where it is on a GPU a copy of it on the CPU, which has double precision and memory to spare."""
    _require_module(model)
    values = itertools.chain(model.parameters(), model.buffers())
    return model if all(value.device.type in ("cpu", "meta") for value in values) else copy.deepcopy(model).cpu()


def _require_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"the network must be an nn.Module, got {type(model).__name__}")
