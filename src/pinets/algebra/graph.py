"""Trace a network to a graph of operations and run that graph in any algebra.

The same walk serves every question: :class:`Domain` says what a value is (a degree, a power series, coefficient
tensors, ...) and how values are combined linearly and multiplied; :mod:`pinets.algebra.rules` says how each operation
of torch is made of these two.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import logging
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, fx, nn

from pinets._modes import evaluating

__all__ = [
    "Domain",
    "Graph",
    "Inputs",
    "NotPolynomialError",
    "Operation",
    "Signed",
    "TraceError",
    "Value",
    "check_inputs",
    "depends_on_input",
    "on_cpu",
    "quiet",
    "require_rows_apart",
    "trace",
]

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]


class NotPolynomialError(ValueError):
    """What was asked is exact for polynomials only, and the network is not one."""


class TraceError(ValueError):
    """The network runs, but its computation cannot be written as one graph for all inputs."""


class Value:
    """Something that depends on the input, in some domain; all else in a graph is a constant."""


class Domain(Protocol):
    """An algebra to run a graph in."""

    def constant(self, tensor: Tensor) -> Value:
        """The value of something that does not depend on the input."""

    def linear(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """Apply a function that is linear in all its arguments together, without a constant term.

        No coefficient of the function is negative, unless it is a :class:`Signed` one.
        """

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Value:
        """Apply a function that is linear in each of its two arguments, with coefficients as in :meth:`linear`."""

    def refuse(self, operation: Operation, reason: str) -> Any:
        """Answer an operation that is not polynomial in the input: raise, or note it and go on."""


@dataclass(frozen=True)
class Signed:
    """A (bi)linear function with negative coefficients, and what it is with their absolute values.

    It is called as any function is; what carries sizes through a network (intervals) asks for the magnitude, and for
    ``terms``, the same with ones as coefficients, where there can be more terms than operands have elements.
    """

    function: Callable[..., Tensor]
    magnitude: Callable[..., Tensor]
    terms: Callable[..., Tensor] | None = None

    def __call__(self, *values: Tensor) -> Tensor:
        return self.function(*values)


@dataclass(frozen=True)
class Operation:
    """One operation of a graph with its arguments, some of which depend on the input."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    path: str  # of the module it stands in; empty for the network itself
    module: str  # name of that module's class
    example: Any  # a fake tensor of the result's shape
    first_shape: torch.Size  # of the first argument
    dtype: torch.dtype | None = None  # that everything is computed in; None for each operation's own

    def zeros(self, shape: Sequence[int]) -> Tensor:
        """Zeros as the network itself would make them, to fill with a constant of the operation."""
        return torch.zeros(tuple(shape), dtype=self.example.dtype, device=self.example.device)

    def made(self, tensor: Tensor) -> Tensor:
        """A constant of the operation, which has the network's own type, in the type everything is computed in."""
        return tensor.to(self.dtype) if tensor.is_floating_point() and self.dtype is not None else tensor

    @property
    def name(self) -> str:
        """The operation's name as torch spells it, without overload or namespace: ``max_pool2d``."""
        name = getattr(self.target, "_opname", None) or getattr(self.target, "__name__", str(self.target))
        return str(name)


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
        from pinets.algebra.rules import apply, apply_to_constants

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
                    known[node.name] = domain.refuse(_operation(node, args, kwargs, dtype), "draws random numbers")
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


def check_inputs(example: Inputs) -> tuple[Tensor, ...]:
    """The inputs as a tuple, refused where nothing exact can be said with them."""
    inputs = example if isinstance(example, tuple) else (example,)
    for value in inputs:
        if not isinstance(value, Tensor):
            raise TypeError(f"the input must be a tensor or a tuple of tensors, got {type(value).__name__}")
        if not value.is_floating_point():
            raise TypeError(f"the input must be of a floating-point type, got {value.dtype}; convert it with .float()")
        if not value.numel():
            raise ValueError(f"the input must have elements, got shape {tuple(value.shape)}")
        if not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise ValueError(f"the input must be finite, got {bad} of {value.numel()} values that are NaN or infinite")
    return inputs


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


def require_rows_apart(model: nn.Module, example: Tensor) -> None:
    """Refuse a network whose outputs for one row depend on the other rows of the batch, where one row stands for all.

    Tried with two random rows; networks that take no two are left alone.
    """
    rows = torch.randn((2, *example.shape[1:]), generator=torch.Generator().manual_seed(0)).to(example)
    with evaluating(model), torch.no_grad():
        try:
            both, alone = model(rows), model(rows[:1])
        except RuntimeError:
            return
    if not isinstance(both, Tensor) or not isinstance(alone, Tensor) or both.shape[1:] != alone.shape[1:]:
        return
    size = both.abs().max()
    if size.isfinite() and (both[:1] - alone).abs().max() > 1e-2 * size:
        raise ValueError("what the network gives for one row of a batch depends on the other rows")


def on_cpu(model: nn.Module) -> nn.Module:
    """The network, or where it is on a GPU a copy of it on the CPU, which has double precision and memory to spare."""
    values = itertools.chain(model.parameters(), model.buffers())
    return model if all(value.device.type in ("cpu", "meta") for value in values) else copy.deepcopy(model).cpu()


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


def depends_on_input(arguments: Any) -> bool:
    """Whether there is a value among (nested) arguments."""
    if isinstance(arguments, Value):
        return True
    if isinstance(arguments, dict):
        return any(depends_on_input(argument) for argument in arguments.values())
    if isinstance(arguments, (list, tuple)):
        return any(depends_on_input(argument) for argument in arguments)
    return False


def _convert(value: Any, dtype: torch.dtype | None) -> Any:
    if dtype is not None and isinstance(value, Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value
