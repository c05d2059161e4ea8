"""Stopping on a loss that is NaN or infinite, and finding the layer that made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["NonFiniteError", "NonFiniteLoss", "first_non_finite_layer", "non_finite_names", "require_finite"]


class NonFiniteLoss(ArithmeticError):  # noqa: N818 - a signal from a task to the loop, which turns it into the error
    """Raised by a task before a non-finite loss can reach the weights."""


class NonFiniteError(RuntimeError):
    """A run stopped because its loss or its weights are no longer finite."""


def require_finite(loss: Tensor, accelerator: Accelerator) -> None:
    """Raise :class:`NonFiniteLoss` on every process if the loss is not finite on one of them.

    Called between forward and backward, while the weights are still finite. With several processes this costs one small
    reduction a step; without it, the process that stops would leave the others waiting.
    """
    broken = (~torch.isfinite(loss.detach()).all()).to(torch.int32)
    if accelerator.num_processes > 1:
        broken = accelerator.reduce(broken, reduction="sum")
    if broken.item():
        raise NonFiniteLoss(f"the loss is {loss.detach().float().mean().item()}")


@contextmanager
def first_non_finite_layer(networks: Mapping[str, nn.Module]) -> Iterator[list[str]]:
    """Watch forward passes; the first layer with a non-finite output is added to the list.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Identity())
    >>> with torch.no_grad(), first_non_finite_layer({"model": net}) as found:
    ...     _ = net[0].weight.fill_(float("inf"))
    ...     _ = net(torch.ones(1, 2))
    >>> found
    ['model.0 (Linear; its own weight is not finite)']
    """
    found: list[str] = []
    handles = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            # children finish before their parent, so the first to report is the innermost
            if not found and not all(torch.isfinite(tensor).all() for tensor in _floating_tensors(output)):
                found.append(f"{name} ({_describe(module, inputs)})")

        return hook

    for network_name, network in networks.items():
        for name, module in network.named_modules():
            handles.append(module.register_forward_hook(watch(f"{network_name}.{name}".rstrip("."))))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _describe(module: nn.Module, inputs: Any) -> str:
    kind = type(module).__name__
    if not all(torch.isfinite(tensor).all() for tensor in _floating_tensors(inputs)):
        return f"{kind}; its input is already not finite"
    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return f"{kind}; its own {name} is not finite"
    return kind


def _floating_tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _floating_tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _floating_tensors(item)


def non_finite_names(tensors: Mapping[str, Tensor]) -> list[str]:
    """Which of the tensors hold an infinity or a NaN.

    >>> non_finite_names({"weight": torch.tensor([1.0, float("nan")]), "bias": torch.zeros(2)})
    ['weight']
    """
    return [name for name, tensor in tensors.items() if tensor.is_floating_point() and not torch.isfinite(tensor).all()]
