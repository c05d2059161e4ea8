"""Find the modules that keep a network from being traced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pinets.algebra.domains.degree import Degree, DegreeDomain, Violation
from pinets.algebra.graph import TraceError, call_apart, graph_of
from pinets.algebra.reasons import UNTRACED

__all__ = ["untraceable_parts"]


def untraceable_parts(model: nn.Module, inputs: tuple[Tensor, ...], error: TraceError) -> list[Violation]:
    """The innermost modules that cannot be traced, and the violations of the modules that can.

    Each child is traced by itself, with the inputs that the network calls it with. If all children can be traced, it is
    the network's own ``forward`` that cannot.
    """
    found: list[Violation] = []
    all_traced = True
    for name, child, arguments in _calls_of_children(model, inputs):
        try:
            structure = DegreeDomain()
            graph_of(child, arguments).run(structure, [Degree(1) for _ in arguments])
            inside = structure.violations
        except TraceError as reason:
            all_traced = False
            inside = untraceable_parts(child, arguments, reason)
        for violation in inside:
            path, module = f"{name}.{violation.path}", violation.module
            if not violation.path:
                path, module = name, type(child).__name__
            found.append(replace(violation, path=path, module=module))
    if not all_traced:
        return found
    text = str(error)
    if "data-dependent" in text.lower() or "DataDependent" in text:
        text = f"control flow depends on values of the input or of a buffer ({text})"
    return [Violation("", "tracing", f"{UNTRACED}: {text}"), *found]


def _calls_of_children(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[tuple[str, nn.Module, tuple[Tensor, ...]]]:
    """The children in the order of their first calls, without those that take other arguments than tensors."""
    calls: list[tuple[str, nn.Module, tuple[Tensor, ...]]] = []
    seen: set[str] = set()
    handles = []
    for name, child in model.named_children():
        if isinstance(child, torch.jit.ScriptModule):  # takes no hooks
            continue

        def note(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], name: str = name) -> None:
            fits = not options and all(isinstance(argument, Tensor) for argument in arguments)
            if fits and arguments and name not in seen:
                seen.add(name)
                calls.append((name, module, tuple(argument.detach().clone() for argument in arguments)))

        handles.append(child.register_forward_pre_hook(note, with_kwargs=True))
    try:
        with torch.no_grad():
            call_apart(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls
