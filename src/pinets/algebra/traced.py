"""One traced network, which every question of :mod:`pinets.algebra` takes in place of a module."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from pinets.algebra.graph import Graph, TraceError, call_apart, graph_of, quiet
from pinets.algebra.inputs import Inputs, check_inputs, example_for, require_module
from pinets.algebra.untraceable import untraceable_parts

if TYPE_CHECKING:
    from pinets.algebra._certify import Certificate

__all__ = ["Traced", "as_traced", "trace"]


class Traced:
    """A network as one graph of operations, for inputs of one shape.

    Tracing takes most of the time of a question about a small network. A network traced once answers many:
    :func:`~pinets.algebra.certify`, :func:`~pinets.algebra.bounds`, :func:`~pinets.algebra.expand` and the others take
    it in place of the module.

    A traced network is a copy in evaluation mode. Weights that change later do not change it.

    Attributes:
        example: The inputs that the network was traced with; only their shapes and types matter.
        graph: The operations.
        network: The copy of the network.
    """

    def __init__(self, network: nn.Module, example: tuple[Tensor, ...], graph: Graph) -> None:
        self.network, self.example, self.graph = network, example, graph

    @cached_property
    def certificate(self) -> Certificate:
        """Whether the network is a polynomial, and of which degree; found out once."""
        from pinets.algebra._certify import certificate_of

        return certificate_of(self)

    def evaluator(self, dtype: torch.dtype | None = None) -> Callable[..., list[Tensor]]:
        """The network as a function of its inputs that returns all output tensors, without side effects.

        Args:
            dtype: Floating-point parameters and buffers are converted to this type; None keeps their own.
        """
        state = {name: value.detach() for name, value in _state(self.network)}
        if dtype is not None:
            state = {name: value.to(dtype) if value.is_floating_point() else value for name, value in state.items()}

        def evaluate(*inputs: Tensor) -> list[Tensor]:
            out = call_apart(self.network, inputs, state)
            return [value for value in tree_leaves(out) if isinstance(value, Tensor)]

        return evaluate

    @cached_property
    def mixes_rows(self) -> bool:
        """Whether the output for one row of a batch depends on the other rows.

        The output for each of two random rows must not change by a bit when the other row changes, and must have a
        derivative of exactly zero with respect to the other row. A network that does not take two rows, or gives
        outputs of another shape for them, counts as one that keeps rows apart.
        """
        for dtype in (torch.float64, None):
            try:
                with quiet(), torch.enable_grad():
                    return _mixes_rows(self.evaluator(dtype), self.example[0], dtype)
            except RuntimeError:  # in double precision some networks do not run; others take one row only
                continue
        return False

    def require_one_row(self, what: str) -> Tensor:
        """The example, refused unless the network was traced with one row and keeps the rows of a batch apart."""
        if len(self.example) != 1:
            raise ValueError(f"{what} needs a network with one input, this one has {len(self.example)}")
        (example,) = self.example
        if example.shape[:1] != (1,):
            raise ValueError(
                f"{what} needs a network traced with a batch of one row, this one was traced with shape "
                f"{tuple(example.shape)}"
            )
        if self.mixes_rows:
            raise ValueError("what the network gives for one row of a batch depends on the other rows")
        return example

    def __repr__(self) -> str:
        shapes = ", ".join(str(tuple(value.shape)) for value in self.example)
        return f"Traced({type(self.network).__name__}, inputs of shape {shapes}, {len(self.graph.nodes)} operations)"


def trace(model: nn.Module, example: Inputs | None = None) -> Traced:
    """Trace a network once, to ask it several questions.

    Args:
        model: Any network that `torch.export` can trace, on any device. It is left as it was.
        example: An input, or a tuple of them; its shape matters, its values do not. Bounds, expansions and interactions
            need a batch of one row. May be left out if the first layer is an ``nn.Linear``.

    Example:
        >>> from pinets import CCP
        >>> from pinets.algebra import ball, bounds, certify
        >>> traced = trace(CCP(4, 2, rank=3, order=3))
        >>> traced
        Traced(CCP, inputs of shape (1, 4), 8 operations)
        >>> certify(traced).degree, bounds(traced, *ball(torch.zeros(1, 4), 0.1)).lower.shape
        (3, torch.Size([1, 2]))
    """
    require_module(model)
    inputs = tuple(value.detach().cpu() for value in check_inputs(example_for(model, example)))
    network = _private_copy(model)
    try:
        graph = graph_of(network, inputs)
    except TraceError as error:
        raise TraceError(str(error), untraceable_parts(network, inputs, error)) from error
    return Traced(network, inputs, graph)


def as_traced(model: nn.Module | Traced, example: Inputs | None) -> Traced:
    """The network traced for the example, or the traced network itself if it fits the example."""
    if not isinstance(model, Traced):
        return trace(model, example)
    if example is not None:
        shapes, known = ([tuple(value.shape) for value in values] for values in (check_inputs(example), model.example))
        if shapes != known:
            raise ValueError(f"the network was traced for inputs of shape {known}, got {shapes}; trace it for these")
    return model


def _mixes_rows(evaluate: Callable[..., list[Tensor]], example: Tensor, dtype: torch.dtype | None) -> bool:
    generator = torch.Generator().manual_seed(0)
    rows, others = (
        torch.randn((2, *example.shape[1:]), generator=generator).to(dtype or example.dtype) for _ in range(2)
    )
    rows.requires_grad_()
    both, alone = evaluate(rows), evaluate(rows[:1])
    if [value.shape[1:] for value in both] != [value.shape[1:] for value in alone]:
        return False
    for own, other in ((0, 1), (1, 0)):
        changed = evaluate(torch.stack([others[row] if row == other else rows.detach()[row] for row in (0, 1)]))
        for value, after in zip(both, changed, strict=True):
            row = value[own:][:1]
            if not torch.equal(row.nan_to_num(), after[own:][:1].nan_to_num()):
                return True
            if row.requires_grad and row.numel():
                weights = torch.randn(row.shape, generator=generator).to(row)
                (slope,) = torch.autograd.grad(row, rows, weights, retain_graph=True, allow_unused=True)
                if slope is not None and slope.isfinite().all() and slope[other].any():
                    return True
    return False


def _private_copy(model: nn.Module) -> nn.Module:
    """A copy on the CPU, which has double precision and memory to spare."""
    on_cpu = all(value.device.type in ("cpu", "meta") for _, value in _state(model))
    try:
        private = copy.deepcopy(model)
    except Exception as error:  # modules may hold anything: a lock, a tensor with a history
        if on_cpu:
            return model
        raise ValueError(f"the network cannot be copied to the CPU ({error}); move it there with .cpu()") from error
    return private.eval() if on_cpu else private.eval().cpu()


def _state(network: nn.Module) -> list[tuple[str, Tensor]]:
    return list(itertools.chain(network.named_parameters(), network.named_buffers()))
