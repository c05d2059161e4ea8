"""Example inputs: inferred from a network, and checked."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

__all__ = ["Inputs", "check_inputs", "example_for", "infer_input_shape", "require_module"]

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


def infer_input_shape(network: nn.Module) -> tuple[int, ...] | None:
    """The shape of one input without the batch, or None if the first operator does not tell it.

    A convolution takes any height and width: 8 are assumed, or as many as its kernel needs.

    >>> infer_input_shape(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)))
    (784,)
    >>> infer_input_shape(nn.Conv2d(3, 16, kernel_size=3))
    (3, 8, 8)
    """
    for part in network.modules():
        if isinstance(part, nn.Linear):
            return (part.in_features,)
        if isinstance(part, nn.modules.conv._ConvNd):
            reach = (1 + (size - 1) * step for size, step in zip(part.kernel_size, part.dilation, strict=True))
            return (part.in_channels, *(max(8, size) for size in reach))
        if isinstance(part, nn.LayerNorm):
            return tuple(part.normalized_shape)
        if next(part.parameters(recurse=False), None) is not None:
            return None  # an operator of another kind comes first
    return None


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
        if value.is_meta:
            raise ValueError("the input must have values, got a tensor on the meta device; build the network on a CPU")
        if not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise ValueError(f"the input must be finite, got {bad} of {value.numel()} values that are NaN or infinite")
    return inputs


def require_module(model: Any) -> None:
    """Refuse what is not an ``nn.Module``."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"the network must be an nn.Module, got {type(model).__name__}")
