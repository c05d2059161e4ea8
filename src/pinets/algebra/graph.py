"""The graph of a network's operations, and the walk through it in any domain.

A :class:`pinets.algebra.domains.base.Domain` says what a value is (a degree, a power series, coefficient tensors, an
interval) and how values are mapped linearly and multiplied. :mod:`pinets.algebra.rules` writes each operation of torch
in terms of these two.
"""

from __future__ import annotations

import contextlib
import io
import logging
import operator
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from pinets._modes import evaluating
from pinets.algebra.domains.base import Domain, Operation, Value, depends_on_input
from pinets.algebra.domains.degree import Violation
from pinets.algebra.reasons import RANDOM, WHY
from pinets.algebra.rules import KNOWN, apply, enclose

__all__ = ["Graph", "TraceError", "call_apart", "graph_of", "quiet"]

# one thread at a time: `call_apart` puts other tensors into a network, and tracing changes what all threads share
_CALLING = threading.RLock()


class TraceError(ValueError):
    """The network runs, but cannot be written as one graph for all inputs.

    Attributes:
        violations: The modules that cannot be traced, and what else keeps the network from being a polynomial.
    """

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        super().__init__(message)
        self.violations = list(violations)


@dataclass(frozen=True)
class Graph:
    """The operations of a network in evaluation mode, without side effects, and its constants.

    ``sources`` has the names that constants have as parameters and buffers of the network.
    """

    nodes: list[fx.Node]
    constants: dict[str, Tensor]
    inputs: list[str]
    outputs: list[str]
    sources: dict[str, str] = field(default_factory=dict)

    def with_state(self, state: Mapping[str, Tensor]) -> Graph:
        """The same operations with other parameters and buffers."""
        return replace(self, constants={**self.constants, **{name: state[key] for name, key in self.sources.items()}})

    @property
    def float_types(self) -> list[torch.dtype]:
        """The floating-point types that the network computes in, the coarsest first."""
        values = [node.meta.get("val") for node in self.nodes]
        types = {value.dtype for value in values if isinstance(value, Tensor) and value.is_floating_point()}
        return sorted(types, key=lambda dtype: -torch.finfo(dtype).eps)

    def run(
        self,
        domain: Domain,
        values: Sequence[Value],
        dtype: torch.dtype | None = None,
        *,
        rounds_constants: bool = False,
        gradients: bool = False,
    ) -> list[Any]:
        """Run the graph on values of a domain and return those of the outputs.

        Args:
            domain: Says what values are.
            values: One value for each input.
            dtype: Converts all constants to this type; None keeps their own.
            rounds_constants: Whether sums and products of constants run in the domain too, so that it knows their
                rounding: a bias computed from two factors, for example.
            gradients: Whether autograd follows the computation.
        """
        known: dict[str, Any] = {name: _convert(value, dtype) for name, value in self.constants.items()}
        known.update(zip(self.inputs, values, strict=True))
        enclosures: dict[int, tuple[Tensor, Value]] = {}
        uses = {node.name: len(node.users) for node in self.nodes}

        def look_up(node: fx.Node) -> Any:
            return known[node.name]

        with contextlib.nullcontext() if gradients else torch.no_grad():
            for node in self.nodes:
                args: Any = fx.map_arg(node.args, look_up)
                kwargs: Any = fx.map_arg(node.kwargs, look_up)
                target: Any = node.target
                if node.target is operator.getitem:
                    known[node.name] = args[0][args[1]]
                    continue
                operation = _operation(node, args, kwargs, dtype, enclosures)
                if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
                    # attention has this tag for its dropout, but a reason of its own
                    known[node.name] = domain.refuse(operation, WHY.get(operation.name, RANDOM))
                elif not depends_on_input((args, kwargs)):
                    result = target(*args, **kwargs)
                    if operation.name.startswith("empty"):  # what memory holds must not matter, and may be NaN
                        result.zero_()
                    known[node.name] = _convert(result, dtype)
                    if rounds_constants:
                        enclosures.update(enclose(domain, operation, known[node.name]))
                else:
                    known[node.name] = apply(domain, operation)
                for used in node.all_input_nodes:  # free what no later node needs
                    if used.name in uses:
                        uses[used.name] -= 1
                        if uses[used.name] == 0 and used.name not in self.outputs:
                            known.pop(used.name, None)
        found = [known.get(name) for name in self.outputs]
        return [enclosures[id(value)][1] if id(value) in enclosures else value for value in found]


def graph_of(model: nn.Module, inputs: tuple[Tensor, ...]) -> Graph:
    """Export the network in evaluation mode. Its buffers stay as they were."""
    with evaluating(model):
        try:
            with quiet():
                exported = torch.export.export(model, inputs)
                if not all(map(_has_rule, exported.graph.nodes)):  # rewriting takes most of the time
                    exported = exported.run_decompositions(_decompositions())
        except Exception as error:
            _require_runs(model, inputs)
            text = str(error).strip().partition("\n")[0]
            raise TraceError(text) from error
    signature = exported.graph_signature
    known: dict[str, Any] = {**exported.state_dict, **exported.constants}
    constants: dict[str, Tensor] = {}
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    inputs_to = {**state, **signature.inputs_to_lifted_tensor_constants}
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in inputs_to:
            constants[node.name] = known[inputs_to[node.name]].detach()
        elif node.op == "get_attr":
            constants[node.name] = getattr(exported.graph_module, node.target)
    outputs = [str(name) for name in signature.user_outputs]
    graph = Graph(_needed(exported.graph, outputs), constants, list(signature.user_inputs), outputs, sources=state)
    values = [node.meta.get("val") for node in graph.nodes]
    sizes = [size for value in values for size in (value.shape if isinstance(value, Tensor) else [value])]
    if any(isinstance(size, torch.SymInt) for size in sizes):
        _note_values(graph, inputs)
    return graph


@torch.no_grad()
def _require_runs(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Raise the network's own error if it does not run on these inputs, and name the layer where it is torch's."""
    try:
        call_apart(model, inputs)
    except RuntimeError as error:
        names = {id(layer): f"{name} ({type(layer).__name__})" for name, layer in model.named_modules() if name}
        callers = [id(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(error.__traceback__)]
        inside = [names[caller] for caller in callers if caller in names]
        raise RuntimeError(": ".join([*inside[-1:], str(error)])) from error


def _needed(graph: fx.Graph, outputs: Sequence[str]) -> list[fx.Node]:
    """The operations that the outputs depend on: no checks of what tracing assumed, no writes into buffers."""
    names, nodes = {*outputs}, []
    for node in reversed(graph.nodes):
        if node.op == "call_function" and node.name in names:
            names.update(used.name for used in node.all_input_nodes)
            nodes.append(node)
    return nodes[::-1]


def _note_values(graph: Graph, inputs: tuple[Tensor, ...]) -> None:
    """Make every node's value its example: torch leaves the shape open that an index by a constant mask gives."""
    known: dict[str, Any] = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    with torch.no_grad():
        for node in graph.nodes:
            target: Any = node.target
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda used: known[used.name])
            known[node.name] = node.meta["val"] = target(*args, **kwargs)


def call_apart(model: nn.Module, inputs: tuple[Tensor, ...], state: Mapping[str, Tensor] | None = None) -> Any:
    """What a network gives in evaluation mode, with copies of its tensors: it may write into them and into its inputs.

    Args:
        model: The network, which is left as it was.
        inputs: Its inputs, which are left as they were.
        state: Other parameters and buffers by their names; None for its own.
    """
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())} if state is None else state
    given = tuple(value.clone() for value in inputs)
    copies = {name: value.clone() for name, value in own.items() if not is_lazy(value)}
    with _CALLING, evaluating(model):
        if isinstance(model, torch.jit.ScriptModule):  # takes no other tensors
            return model(*given)
        return torch.func.functional_call(model, copies, given)


def _has_rule(node: fx.Node) -> bool:
    """Whether a node stays as it is: it is no operation, or one that is known here and writes into no tensor."""
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.is_mutable and target._opname in KNOWN


@cache
def _decompositions() -> dict[Any, Any]:
    """Torch's decompositions of operations without a rule into others: ``hstack`` into ``cat``."""
    table = torch.export.default_decompositions()
    for operation in list(table.keys()):
        if getattr(operation, "_opname", "") in KNOWN:
            table.pop(operation)
    return table


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's warnings and logs while it traces, in one thread at a time.

    The error that torch raises says what matters.
    """
    with _CALLING:
        before = logging.root.manager.disable
        logging.disable(max(before, logging.ERROR))
        try:
            nowhere = io.StringIO()
            with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(before)


def _operation(
    node: fx.Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtype: torch.dtype | None,
    enclosures: dict[int, tuple[Tensor, Value]],
) -> Operation:
    stack = list((node.meta.get("nn_module_stack") or {"": ("", "")}).values())
    path, module = stack[-1]
    return Operation(
        target=node.target,
        args=args,
        kwargs=dict(kwargs),
        path=path,
        module=(module if isinstance(module, str) else module.__name__).rpartition(".")[2],
        example=node.meta.get("val"),
        examples=fx.map_arg(node.args, lambda used: used.meta.get("val")),  # type: ignore[arg-type]
        dtype=dtype,
        enclosures=enclosures,
    )


def _convert(value: Any, dtype: torch.dtype | None) -> Any:
    if dtype is not None and isinstance(value, Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value
