"""Compile networks, and train with the compiled code only if it computes the same gradients.

``torch.compile`` may generate wrong code without a word. With torch 2.13.0 on a CPU the gradients of Spiral Π-nets with
ELU are zero in all layers but the last, and those of SNGAN's generators in bfloat16 are zero in the shortcuts if the
code is for shapes that vary. Such networks train, and learn less than they could.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets.engine.randomness import restore_torch_random_state, torch_random_state
from pinets.engine.task import Task

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["compile_networks"]

Forward = Callable[..., Any]
Gradients = dict[str, Tensor]  # by the names of the parameters

# how far the gradient of a parameter may be off, and how large it must be beside the largest one for that to count
_TOLERANCE, _SIGNIFICANT = 0.05, 1e-3
_TOLERANCE_MIXED, _SIGNIFICANT_MIXED = 0.7, 0.05  # in mixed precision: rounding alone changes some by 0.4


def compile_networks(task: Task, accelerator: Accelerator, *, backend: str | Callable[..., Any] = "inductor") -> None:
    """Let ``torch.compile`` speed up a task's networks, in place: the names of layers and weights stay as they are.

    Of each network the method ``forward`` is compiled. ``nn.Module.compile`` would do nothing for a ``Sequential`` of
    torch's own layers. In the first step of training the gradients are compared with those of the network as it is; if
    they differ, a warning says so and the network is trained uncompiled.
    """
    for name, network in task.networks.items():
        bare = accelerator.unwrap_model(network)
        bare.forward = _CompiledForward(bare, name, backend, mixed=accelerator.mixed_precision != "no")


class _CompiledForward:
    """The compiled ``forward`` of a network, or the network's own if the compiled one has other gradients."""

    def __init__(self, network: nn.Module, name: str, backend: str | Callable[..., Any], *, mixed: bool) -> None:
        self._network, self._name, self._mixed = network, name, mixed
        self._unchecked: nn.Module | None = copy.deepcopy(network)
        self._eager: Forward = network.forward
        # shapes are constants: code for shapes that vary, which torch turns to by itself, gave wrong gradients
        self._compile = partial(torch.compile, backend=backend, dynamic=False)
        self._forward: Forward = self._compile(network.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._unchecked is not None and self._network.training and torch.is_grad_enabled():
            right, found = _gradients_of_both(self._unchecked.train(), self._compile, args, kwargs)
            self._unchecked = None
            torch.compiler.reset()  # forget the copies: torch keeps few graphs for each function
            if wrong := _first_difference(right, found, mixed=self._mixed):
                self._forward = self._eager
                warnings.warn(
                    f"torch.compile computes wrong gradients for {self._name}, which is trained uncompiled: {wrong}",
                    stacklevel=2,
                )
        return self._forward(*args, **kwargs)


def _gradients_of_both(
    network: nn.Module, compile: Callable[[Forward], Forward], args: Any, kwargs: Any
) -> tuple[Gradients, Gradients]:
    """The gradients of a weighted sum of the outputs, by the network's own code and by the compiled code.

    There are none where the two cannot be compared: the network draws random numbers, and compiled code draws others.
    Each time a copy of the network is run, since a run may change it: statistics, hooks that record.
    """

    def run(seed: int, compile: Callable[[Forward], Forward] = lambda forward: forward) -> tuple[Any, Gradients]:
        one = copy.deepcopy(network)
        parameters = {name: value for name, value in one.named_parameters() if value.requires_grad}
        torch.manual_seed(seed)
        output = compile(one.forward)(*args, **kwargs)
        if not parameters or not isinstance(output, Tensor):
            return None, {}
        weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
        found = torch.autograd.grad((output * weights).sum(), [*parameters.values()], allow_unused=True)
        named = zip(parameters, found, strict=True)
        return output.detach(), {name: value for name, value in named if value is not None}

    device = next((value.device for value in network.parameters()), torch.device("cpu"))
    drawn = torch_random_state(device)
    try:
        output, right = run(0)
        if output is None or not torch.allclose(output, run(1)[0], rtol=1e-3, atol=1e-3):
            return {}, {}
        return right, run(0, compile)[1]
    finally:
        restore_torch_random_state(drawn, device)


def _first_difference(right: Gradients, found: Gradients, *, mixed: bool) -> str:
    """The first parameter whose gradient is wrong, in words; empty if there is none."""
    tolerance, significant = (_TOLERANCE_MIXED, _SIGNIFICANT_MIXED) if mixed else (_TOLERANCE, _SIGNIFICANT)
    sizes = {name: float(value.norm()) for name, value in right.items()}
    least = significant * max(sizes.values(), default=0.0)
    for name, size in sizes.items():
        off = float((right[name] - found[name]).norm()) if name in found else size
        if size > least and not off <= tolerance * size:
            return f"that of {name} is off by {100 * off / size:.3g} %"
    return ""
