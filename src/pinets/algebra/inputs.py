"""Example inputs: inferred from a network, and checked."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from pinets._inputs import infer_input_shape

__all__ = ["Inputs", "check_inputs", "example_for", "require_module"]

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
Example = TypeVar("Example", bound=Inputs)


def example_for(model: nn.Module, example: Example | None) -> Example | Tensor:
    """The example given, or an input of the shape that a first ``nn.Linear`` takes."""
    require_module(model)
    if example is not None:
        return example
    shape = infer_input_shape(model)
    if shape is not None and len(shape) == 1:
        return next(model.parameters()).new_zeros(1, *shape)
    raise ValueError(
        "the shape of the input cannot be told from the network; give an example, such as torch.zeros(1, 3, 32, 32)"
    )


def check_inputs(example: Inputs) -> tuple[Tensor, ...]:
    """The inputs as a tuple of finite floating-point tensors, or an error."""
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


def require_module(model: Any) -> None:
    """Refuse what is not an ``nn.Module``."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"the network must be an nn.Module, got {type(model).__name__}")
