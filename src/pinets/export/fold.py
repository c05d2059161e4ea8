"""Batch norms at inference are affine: fold them into the operator before them."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from pinets._modes import evaluating
from pinets.algebra import trace

__all__ = ["fold_batch_norms"]

_KINDS = ("batch_norm", "conv", "linear")  # parts of the names of operations
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

_NORMS = (nn.modules.batchnorm._BatchNorm.forward, nn.SyncBatchNorm.forward)  # a subclass may compute something else


def fold_batch_norms(model: nn.Module, example: Tensor) -> tuple[nn.Module, int]:
    """Copy a network with its batch norms folded into the convolution or linear map before them.

    A batch norm is folded only if no other operation reads the value between the two or the weights of either, as tied
    weights are read; the others stay.

    Args:
        model: The network, used in evaluation mode and not changed.
        example: An input with a batch axis.

    Returns:
        The copy, in evaluation mode, and the number of folded batch norms.

    Example:
        >>> import torch
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        >>> folded, count = fold_batch_norms(network, torch.randn(1, 3, 8, 8))
        >>> folded[1], count
        (Identity(), 1)
    """
    pairs = _foldable(model, example)
    with evaluating(model):
        folded = copy.deepcopy(model)
    folded.eval()
    for operator_path, norm_path in pairs:
        operator: Any = folded.get_submodule(operator_path)
        norm: Any = folded.get_submodule(norm_path)
        if isinstance(operator, nn.Linear):
            if norm.weight is None:  # torch's fusion of linear maps needs them, that of convolutions does not
                norm.weight = nn.Parameter(torch.ones_like(norm.running_mean))
                norm.bias = nn.Parameter(torch.zeros_like(norm.running_mean))
            fused: nn.Module = fuse_linear_bn_eval(operator, norm)
        else:
            transpose = isinstance(operator, nn.modules.conv._ConvTransposeNd)
            fused = fuse_conv_bn_eval(operator, norm, transpose=transpose)
        for path, module in ((operator_path, fused), (norm_path, nn.Identity())):
            parent, _, name = path.rpartition(".")
            setattr(folded.get_submodule(parent), name, module)
    return folded, len(pairs)


def _foldable(model: nn.Module, example: Tensor) -> list[tuple[str, str]]:
    """The paths of each operator and the batch norm that alone reads its result."""
    nodes = trace(model, example).graph.nodes
    runs = Counter(_path(node) for node in nodes if any(kind in _name(node) for kind in _KINDS))
    pairs = []
    for node in nodes:
        before = node.args[0] if node.args else None
        if "batch_norm" not in _name(node) or not isinstance(before, fx.Node) or len(before.users) != 1:
            continue
        operator_path, norm_path = _path(before), _path(node)
        once = runs[operator_path] == runs[norm_path] == 1
        weights = {*before.all_input_nodes, *node.all_input_nodes} - {before, *before.args[:1]}
        own = all(len(weight.users) == 1 for weight in weights)
        if once and own and _fits(model, operator_path, norm_path, before):
            pairs.append((operator_path, norm_path))
    return pairs


def _fits(model: nn.Module, operator_path: str, norm_path: str, between: fx.Node) -> bool:
    operator, norm = model.get_submodule(operator_path), model.get_submodule(norm_path)
    if type(norm).forward not in _NORMS or norm.running_mean is None:
        return False
    if any(part._forward_hooks or part._forward_pre_hooks for part in (operator, norm)):  # such as those of pruning
        return False
    if parametrize.is_parametrized(operator):  # the weight is recomputed in every call
        return False
    rank = between.meta["val"].ndim
    if isinstance(operator, nn.modules.conv._ConvTransposeNd) and operator.groups > 1:  # torch has no fusion for them
        return False
    return type(operator) in _CONVOLUTIONS or (type(operator) is nn.Linear and rank == 2)


def _path(node: fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {"": ("", "")}).values())
    return str(stack[-1][0])


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "_opname", ""))
