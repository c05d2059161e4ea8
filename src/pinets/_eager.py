"""What eager mode can do without: calls that do nothing, copies that nobody looks at, autograd's own backward pass."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

__all__ = ["call", "is_bare", "is_transformed", "only_autograd_watches"]

M = TypeVar("M", bound=nn.Module)


def call(module: nn.Module, x: Tensor) -> Tensor:
    """``module(x)``; a bare ``nn.Linear`` or ``nn.Identity`` without the detours of a call, which take as long as a
    small product.
    """
    if is_bare(module, nn.Linear):
        return F.linear(x, module.weight, module.bias)
    return x if is_bare(module, nn.Identity) else module(x)


def is_bare(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether a module is of this very class, and calling it does no more than the class says."""
    return type(module) is kind and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or _has_any_global_hook()
    )


def is_transformed() -> bool:
    """Whether the code is compiled or exported, or runs under ``torch.func``: then nothing should be overwritten.

    A compiler reuses memory by itself; a value that is mapped over does not fit into one that is not.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def only_autograd_watches(*values: Tensor) -> bool:
    """False while compiling or tracing, under ``torch.func`` and in forward mode, which all want the plain form."""
    return (
        not is_transformed()
        and all(type(value) is Tensor for value in values)
        and all(forward_ad.unpack_dual(value).tangent is None for value in values)
    )
