"""Residual modules of no known structure, found by tracing: they stay as they are, and the report must say so."""

from __future__ import annotations

import copy
import operator
import warnings
from itertools import permutations

import torch
from torch import fx, nn

__all__ = ["adds_its_input"]

_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")


class _OneLevel(fx.Tracer):
    """Traces the forward of a module itself, and takes those of its children as they are."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def adds_its_input(module: nn.Module) -> bool:
    """Whether a module adds its input, or a projection of it, to a branch; False where its forward cannot be traced."""
    if type(module).__module__.startswith(("torch.nn.", "pinets.")):
        return False  # containers and layers; the residual blocks of pinets are known
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = _OneLevel().trace(copy.copy(module))  # what a forward notes, it notes in the copy
    except Exception:  # whatever a stranger's forward may raise for want of numbers
        return False
    x = next((node for node in graph.nodes if node.op == "placeholder"), None)
    return x is not None and any(_joins(node, x, module) for node in graph.nodes)


def _joins(node: fx.Node, x: fx.Node, module: nn.Module) -> bool:
    """Whether a node adds a branch of ``x`` to ``x``, or to what a single layer makes of it."""
    operands = [argument for argument in node.args if isinstance(argument, fx.Node)]
    if node.target not in _SUMS or len(operands) != 2:
        return False
    for shortcut, branch in permutations(operands):
        is_projection = shortcut.op == "call_module" and shortcut.all_input_nodes == [x]
        layers = _layers(shortcut, module)
        if (shortcut is x or (is_projection and layers <= 1)) and x in _origins(branch):
            return _layers(branch, module) > layers
    return False


def _origins(node: fx.Node) -> set[fx.Node]:
    """The node and all that it is computed from."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += current.all_input_nodes
    return found


def _layers(node: fx.Node, module: nn.Module) -> int:
    """How many layers with weights, convolutions for example, have part in a node."""
    called = [module.get_submodule(str(origin.target)) for origin in _origins(node) if origin.op == "call_module"]
    parts = [part for child in called for part in child.modules()]
    return sum(any(weight.ndim > 1 for weight in part.parameters(recurse=False)) for part in parts)
