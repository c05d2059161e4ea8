"""Drop blocks of a residual network, to turn it into a smaller Π-net."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from pinets.convert.blocks import NotConvertibleError
from pinets.convert.recognise import is_candidate, probe
from pinets.convert.report import Conversion, Report, count_parameters

__all__ = ["drop_blocks", "stages_of"]


def drop_blocks(model: nn.Module, depths: Sequence[int], *, inplace: bool = False) -> Conversion:
    """Keep only the first blocks of every stage of a residual network, with their weights.

    This changes the function. Give the remaining blocks a second order with :func:`pinets.convert.to_pinet` and train
    the network further.

    Args:
        model: The network; it does not change, unless ``inplace``.
        depths: The number of blocks to keep in each stage.
        inplace: Whether to change the network itself instead of a copy.

    Returns:
        The network and a report.

    Example:
        >>> from pinets.models import create_model
        >>> smaller, report = drop_blocks(create_model("resnet18_cifar", width=4), [2, 2, 1, 1])
        >>> smaller.depths, report.dropped
        ((2, 2, 1, 1), ['layer3.1', 'layer4.1'])
    """
    before = count_parameters(model)
    model = model if inplace else copy.deepcopy(model)
    stages = stages_of(model)
    have = [len(stage) for stage in stages.values()]
    if len(depths) != len(have):
        raise ValueError(f"depths must have one entry for each of the {len(have)} stages, {have}; got {list(depths)}")
    dropped = []
    for (path, stage), depth, blocks in zip(stages.items(), depths, have, strict=True):
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= blocks:
            raise ValueError(f"{path or 'the network'} has {blocks} blocks, so 1 to {blocks} can stay; got {depth!r}")
        for position in range(depth, blocks):
            dropped.append(f"{path}.{position}".lstrip("."))
            _require_same_shape(stage[position], dropped[-1])
    for stage, depth in zip(stages.values(), depths, strict=True):  # only now: a refusal leaves the network whole
        del stage[depth:]
    return Conversion(model, Report(dropped=dropped, parameters=(before, count_parameters(model))))


def stages_of(model: nn.Module) -> dict[str, nn.Sequential | nn.ModuleList]:
    """The sequences of residual blocks in a network, by path."""
    return {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, (nn.Sequential, nn.ModuleList)) and len(module) and all(map(is_candidate, module))
    }


def _require_same_shape(block: nn.Module, path: str) -> None:
    """Refuse to drop a block that changes the shape of its input."""
    trial = copy.deepcopy(block).eval()
    try:
        x = probe(trial)
        with torch.no_grad():
            out = trial(x)
    except (NotConvertibleError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be dropped, since it cannot be checked: {error}") from error
    if out.shape != x.shape:
        raise ValueError(
            f"{path} cannot be dropped: it turns shape {tuple(x.shape)} into {tuple(out.shape)}, and others rely on it"
        )
