"""Shortcuts for eager mode, and when they are allowed: no hooks, no compiler, no function transform looks on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

__all__ = [
    "call",
    "differentiate_again",
    "has_hooks",
    "is_bare",
    "is_transformed",
    "may_overwrite",
    "only_autograd_watches",
]

M = TypeVar("M", bound=nn.Module)


def call(module: nn.Module, x: Tensor) -> Tensor:
    """``module(x)``; a bare ``nn.Linear`` or ``nn.Identity`` without the detours of a call, which take as long as a
    small product. While compiling or exporting it is called: graphs name the module of every operation.
    """
    if torch.compiler.is_compiling():
        return module(x)
    if is_bare(module, nn.Linear):
        return F.linear(x, module.weight, module.bias)
    return x if is_bare(module, nn.Identity) else module(x)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody wants to know of this module's calls."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or _has_any_global_hook()
    )


def is_bare(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether a module is of this very class, and calling it does no more than the class says."""
    return type(module) is kind and "forward" not in module.__dict__ and not has_hooks(module)


def is_transformed() -> bool:
    """Whether the code is compiled or exported, or runs under ``torch.func``: then nothing should be overwritten.

    A compiler reuses memory by itself; a value that is mapped over does not fit into one that is not.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def differentiate_again(
    out: Tensor, of: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, of those that need one: for a backward pass written by hand."""
    wanted = [value for value, is_needed in zip(of, needed, strict=True) if is_needed]
    found = iter(torch.autograd.grad(out, wanted, gradient, create_graph=True))
    return tuple(next(found) if is_needed else None for is_needed in needed)


def only_autograd_watches(*values: Tensor) -> bool:
    """False while compiling or tracing, under ``torch.func`` and in forward mode, which all want the plain form."""
    return (
        not is_transformed()
        and all(type(value) in (Tensor, nn.Parameter) for value in values)
        and all(forward_ad.unpack_dual(value).tangent is None for value in values)
    )


def may_overwrite(value: Tensor) -> bool:
    """Whether somebody whose value this is may write to it: no gradient will ask for it, and nothing else watches."""
    return not torch.is_grad_enabled() and only_autograd_watches(value)
