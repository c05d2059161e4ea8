"""Margins of a classifier around inputs, bounded by differentiable functions of its weights: for certified training.

Rounding is left out: training only has to make the margins large. :func:`pinets.algebra.verify` proves them afterwards.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets.algebra.domains.interval import Interval, IntervalDomain
from pinets.algebra.domains.tape import Taped, TapeDomain
from pinets.algebra.graph import graph_of

__all__ = ["MarginBound"]


class MarginBound:
    """By how much the output of a class exceeds each other output at least, all over a box.

    Args:
        network: A polynomial classifier. Batch norm is taken as in evaluation, with the running statistics of the call.
        example: An input, in a batch of one or more; only its shape and type matter.
        linear: Whether margins are bounded by linear functions of the input, found backwards; by plain intervals
            otherwise, which costs about three evaluations of the network, and is much looser.

    Example:
        >>> network, x = nn.Linear(2, 3), torch.zeros(4, 2)
        >>> bound = MarginBound(network, x)
        >>> bound(network, x - 0.1, x + 0.1, torch.tensor([0, 1, 2, 0])).shape  # 0 for the class itself
        torch.Size([4, 3])
    """

    def __init__(self, network: nn.Module, example: Tensor, *, linear: bool = True) -> None:
        self._graph, self._linear = graph_of(network, (example[:1],)), linear

    def __call__(self, network: nn.Module, low: Tensor, high: Tensor, labels: Tensor) -> Tensor:
        """The margins of a network with its present weights over all classes, one row for each box."""
        graph = self._graph.with_state({**dict(network.named_parameters()), **dict(network.named_buffers())})

        def linear(low: Tensor, high: Tensor, label: Tensor) -> Tensor:
            tape = TapeDomain(IntervalDomain(None))
            (output,) = graph.run(tape, [tape.box(low[None], high[None])], gradients=True)
            assert isinstance(output, Taped)
            identity = torch.eye(output.hull.lower.shape[1]).to(low)
            return tape.bound(output, (label - identity)[:, None]).lower

        def plain(low: Tensor, high: Tensor, label: Tensor) -> Tensor:
            (output,) = graph.run(IntervalDomain(None), [Interval(low[None], high[None])], gradients=True)
            assert isinstance(output, Interval)
            own = (label * output.lower[0]).sum()
            return torch.where(label > 0, 0.0, own - output.upper[0])

        chosen = linear if self._linear else plain
        with torch.no_grad():
            classes = network(low[:1]).shape[1]
        rows = torch.nn.functional.one_hot(labels, classes).to(low)
        margins: Tensor = torch.vmap(chosen)(low, high, rows)
        return margins
