"""Trace a network to a graph of operations and run that graph in any algebra.

The same walk serves every question: :class:`pinets.algebra.domain.Domain` says what a value is (a degree, a power
series, coefficient tensors, ...) and how values are combined linearly and multiplied; :mod:`pinets.algebra.rules` says
how each operation of torch is made of these two.
"""

from __future__ import annotations

import contextlib
import io
import logging
import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from pinets._modes import evaluating
from pinets.algebra.domain import Domain, Operation, Value, depends_on_input
from pinets.algebra.reasons import RANDOM, WHY
from pinets.algebra.rules import apply, apply_to_constants

__all__ = ["Graph", "TraceError", "quiet", "trace"]


class TraceError(ValueError):
    """The network runs, but its computation cannot be written as one graph for all inputs."""


@dataclass(frozen=True)
class Graph:
    """A traced network: in evaluation mode, without side effects, with its constants."""

    nodes: list[fx.Node]
    constants: dict[str, Tensor]
    inputs: list[str]
    outputs: list[str]

    @property
    def float_types(self) -> list[torch.dtype]:
        """The floating-point types that it computes in, the coarsest first."""
        values = [node.meta.get("val") for node in self.nodes]
        types = {value.dtype for value in values if isinstance(value, Tensor) and value.is_floating_point()}
        return sorted(types, key=lambda dtype: -torch.finfo(dtype).eps)

    def run(
        self,
        domain: Domain,
        values: Sequence[Value],
        dtype: torch.dtype | None = None,
        *,
        constants_in_domain: bool = False,
    ) -> list[Any]:
        """Run the graph with the given values in place of the inputs.

        Args:
            domain: What values are.
            values: One for each input.
            dtype: Constants are converted to it.
            constants_in_domain: Whether sums and products of constants, such as a factored bias, are computed in the
                domain as well, so that it knows of their rounding.
        """
        known: dict[str, Any] = {name: _convert(value, dtype) for name, value in self.constants.items()}
        known.update(zip(self.inputs, values, strict=True))
        uses = {node.name: len(node.users) for node in self.nodes}

        def look_up(node: fx.Node) -> Any:
            return known[node.name]

        with torch.no_grad():
            for node in self.nodes:
                args: Any = fx.map_arg(node.args, look_up)
                kwargs: Any = fx.map_arg(node.kwargs, look_up)
                target: Any = node.target
                if node.target is operator.getitem:
                    known[node.name] = args[0][args[1]]
                elif torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
                    operation = _operation(node, args, kwargs, dtype)
                    # also what only may draw some, such as attention for its dropout, and has a reason of its own
                    known[node.name] = domain.refuse(operation, WHY.get(operation.name, RANDOM))
                elif not depends_on_input((args, kwargs)):
                    known[node.name] = _convert(target(*args, **kwargs), dtype)
                    if constants_in_domain:
                        operation = _operation(node, args, kwargs, dtype)
                        known[node.name] = apply_to_constants(domain, operation, known[node.name])
                else:
                    known[node.name] = apply(domain, _operation(node, args, kwargs, dtype))
                for used in node.all_input_nodes:  # free what nobody needs any more
                    if used.name in uses:
                        uses[used.name] -= 1
                        if uses[used.name] == 0 and used.name not in self.outputs:
                            known.pop(used.name, None)
        return [known.get(name) for name in self.outputs]


def trace(model: nn.Module, inputs: tuple[Tensor, ...]) -> Graph:
    """Trace the network in evaluation mode, leaving the network itself as it was."""
    with evaluating(model):
        try:
            with quiet():
                exported = torch.export.export(model, inputs).run_decompositions({})
        except Exception as error:
            with torch.no_grad():
                model(*inputs)  # raises by itself where the network does not even run on these inputs
            text = str(error).strip().partition("\n")[0]
            raise TraceError(text) from error
    signature = exported.graph_signature
    known: dict[str, Any] = {**exported.state_dict, **exported.constants}
    constants: dict[str, Tensor] = {}
    inputs_to = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    nodes = []
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in inputs_to:
            constants[node.name] = known[inputs_to[node.name]].detach()
        elif node.op == "get_attr":
            constants[node.name] = getattr(exported.graph_module, node.target)
        elif node.op == "call_function" and "_assert" not in str(node.target):  # what tracing took for granted
            nodes.append(node)
    return Graph(
        nodes=nodes,
        constants=constants,
        inputs=list(signature.user_inputs),
        outputs=[str(name) for name in signature.user_outputs],
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Tracing warns of torch's own business, and prints a page when it fails; the error says what matters."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    try:
        nowhere = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _operation(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype | None) -> Operation:
    stack = list((node.meta.get("nn_module_stack") or {"": ("", "")}).values())
    path, module = stack[-1]
    first = node.args[0] if node.args else None
    example = first.meta.get("val") if isinstance(first, fx.Node) else None
    return Operation(
        target=node.target,
        args=args,
        kwargs=dict(kwargs),
        path=path,
        module=(module if isinstance(module, str) else module.__name__).rpartition(".")[2],
        example=node.meta.get("val"),
        first_shape=getattr(example, "shape", torch.Size()),
        dtype=dtype,
    )


def _convert(value: Any, dtype: torch.dtype | None) -> Any:
    if dtype is not None and isinstance(value, Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value
