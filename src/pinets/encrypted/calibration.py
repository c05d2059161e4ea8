"""Inputs to plan with and to test with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pinets.encrypted.circuit import Circuit
from pinets.encrypted.errors import PlanError
from pinets.encrypted.plan import Plan
from pinets.encrypted.planner import plan_network

__all__ = ["Source", "draw_source", "split_source"]

_DRAWN = 256  # random inputs to plan with
_CALIBRATION = 2000  # training inputs to plan with


@dataclass(frozen=True, eq=False)
class Source:
    """A network, inputs to plan with, and inputs to test with.

    Attributes:
        network: The network, in evaluation mode.
        calibration: Inputs to plan with.
        held_out: Gives a number of other inputs, and their labels if there are any.
    """

    network: nn.Module
    calibration: Tensor
    held_out: Callable[[int], tuple[Tensor, Tensor | None]]

    def plan(self, **options: Any) -> tuple[Plan, Circuit]:
        """Compile and plan; the options are those of :func:`pinets.encrypted.make_plan`."""
        return plan_network(self.network, self.calibration, **options)

    def calibrated(self, inputs: Tensor) -> Source:
        """The same source with other inputs to plan with."""
        wanted = tuple(self.calibration.shape[1:])
        if tuple(inputs.shape[1:]) != wanted:
            raise PlanError(
                f"calibration inputs must have shape {wanted} with a batch axis before it, got {tuple(inputs.shape)}"
            )
        return replace(self, calibration=inputs)


def split_source(network: nn.Module, read: Callable[[Literal["train", "test"], int], tuple[Tensor, Tensor]]) -> Source:
    """A network with data: plan with training inputs, test with test inputs.

    Args:
        network: The network.
        read: Returns a number of inputs of a split and their labels, as ``pinets.resolve(run).data.read`` does.
    """
    return Source(network, read("train", _CALIBRATION)[0], partial(read, "test"))


def draw_source(
    network: nn.Module, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0, typical: Tensor | None = None
) -> Source:
    """A network without data: plan with random inputs and the two extremes of a range, or with typical inputs.

    Args:
        network: The network.
        shape: The shape of one input, without the batch axis.
        low: The least number in an input.
        high: The largest number in an input.
        typical: Typical inputs, which replace the random ones; those to test with are drawn from them.

    Example:
        >>> source = draw_source(nn.Linear(3, 2), (3,), 0.0, 2.0)
        >>> source.calibration[-2:].tolist(), source.held_out(5)[0].shape
        ([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], torch.Size([5, 3]))
    """

    def draw(count: int, seed: int) -> Tensor:
        return torch.empty(count, *shape).uniform_(low, high, generator=torch.Generator().manual_seed(seed))

    calibration = draw(_DRAWN, seed=0)
    calibration[-2].fill_(low)
    calibration[-1].fill_(high)
    source = Source(network, calibration, lambda count: (draw(count, seed=1), None))
    if typical is None:
        return source

    def draw_rows(count: int) -> tuple[Tensor, None]:
        generator = torch.Generator().manual_seed(1)
        return typical[torch.randint(len(typical), (count,), generator=generator)], None

    return replace(source.calibrated(typical), held_out=draw_rows)
