"""Finding residual blocks by the names of their layers, and making sure with numbers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pinets.convert.blocks import Layer, NotConvertibleError, Parts, SplitBlock, registered_parts
from pinets.models.join import Add

__all__ = ["is_candidate", "probe", "recognise"]

_SCALES = (1.0, 1e3)  # of probes: one that is large reaches where a clipped activation ends
_SIZE = 16  # height and width of the probe
_ROUNDING = 1e-5  # of sums in another order; a layer in another place makes a difference of order one


def is_candidate(module: nn.Module) -> bool:
    """Whether a module might be a residual block: it is registered as one, or has the layers of one."""
    children = dict(module.named_children())
    usual = "conv1" in children and "conv2" in children
    has_shortcut = "downsample" in module._modules or "shortcut" in module._modules
    return registered_parts(module) is not None or usual or (has_shortcut and "conv1" in children)


def recognise(block: nn.Module) -> tuple[Parts, Tensor]:
    """The parts of a block, confirmed with numbers, and an output of it; else :class:`NotConvertibleError`."""
    _refuse_what_would_be_lost(block)
    registered = registered_parts(block)
    likeliest, *others = [registered] if registered is not None else list(_usual_parts(block))
    if reason := _unaccounted(block, likeliest):
        raise NotConvertibleError(reason)
    differences = []
    for parts in (likeliest, *others):
        if not _unaccounted(block, parts):
            difference, out = _difference(block, parts)
            if difference <= _ROUNDING:
                return parts, out
            differences.append(difference)
    raise NotConvertibleError(
        f"its output is not activation(branch + shortcut) with the layers in their usual places: it differs by "
        f"{min(differences):.1g} of its size; register_block can say what it consists of"
    )


def _refuse_what_would_be_lost(block: nn.Module) -> None:
    if isinstance(block, torch.jit.ScriptModule):
        raise NotConvertibleError("it is compiled by TorchScript")
    if any(
        getattr(block, hooks)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    ):
        raise NotConvertibleError("it has hooks, which would be lost")
    own = [*block._parameters, *block._buffers]
    if own:
        raise NotConvertibleError(f"it uses {own[0]!r} of its own, outside its layers")


def _unaccounted(block: nn.Module, parts: Parts) -> str:
    """What is wrong with the parts as a list of the block's layers; empty if nothing."""
    for name, layer in block.named_children():
        if name not in parts.names and not isinstance(layer, nn.Identity):
            return f"the place of its layer {name!r} ({type(layer).__name__}) is not known; register_block can say it"
    missing = [name for name in parts.names if not isinstance(getattr(block, name, None), nn.Module)]
    return f"it has no layer {missing[0]!r}" if missing else ""


def _usual_parts(block: nn.Module) -> Iterator[Parts]:
    """The parts of a basic or bottleneck block with the attribute names of torchvision or timm, the likeliest first."""

    def present(*names: str) -> list[str]:
        return [name for name in names if isinstance(getattr(block, name, None), nn.Module)]

    def activation(number: int) -> Layer:
        return next(iter(present(f"act{number}", "relu")), nn.ReLU())

    def required(*names: str) -> str:
        if not present(*names):
            raise NotConvertibleError(f"it has no layer {' or '.join(map(repr, names))}")
        return present(*names)[0]

    count = 3 if present("conv3") else 2
    branch: list[Layer] = []
    for number in range(1, count + 1):
        before_last = number == count - 1  # where timm has its optional layers
        branch += [required(f"conv{number}"), required(f"bn{number}", f"norm{number}")]
        if before_last:
            branch += present("drop_block")
        if number < count:
            branch.append(activation(number))
        if before_last:
            branch += present("aa")
    branch += present("se", "drop_path")
    shortcut = tuple(present("downsample", "shortcut"))
    yield Parts(tuple(branch), shortcut, (activation(count),))
    yield Parts(tuple(branch), shortcut)


def _difference(block: nn.Module, parts: Parts) -> tuple[float, Tensor]:
    """How far the block and the same made from its parts are apart, relative to its size, evaluating and training."""
    first = probe(block)
    worst, outputs = 0.0, []
    with torch.no_grad(), torch.random.fork_rng([first.device] if first.is_cuda else []):
        for training, scale in itertools.product((False, True), _SCALES):
            x = scale * first
            torch.manual_seed(0)
            theirs = copy.deepcopy(block).train(training)
            _randomise(theirs)
            ours = copy.deepcopy(theirs)
            rebuilt = SplitBlock(ours, parts, Add(nn.Identity())).train(training)
            out, again = (_run(module, x.clone()) for module in (theirs, rebuilt))
            if out.shape != again.shape:
                raise NotConvertibleError("its output has not the shape that its branch and shortcut give")
            worst = max([worst, _apart(out, again), *map(_apart, theirs.buffers(), ours.buffers())])
            outputs.append(out)
    return worst, outputs[0]


def _run(module: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(0)  # every run drops the same paths
    try:
        out = module(x)
    except Exception as error:  # whatever a stranger's forward may raise
        raise NotConvertibleError(f"it does not run on an input of shape {tuple(x.shape)}: {error}") from error
    if not isinstance(out, Tensor):
        raise NotConvertibleError(f"its output is not a tensor but {type(out).__name__}")
    return out


def _randomise(module: nn.Module) -> None:
    """Draw all weights anew: a branch that starts at zero, a usual trick, would hide what its layers are."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=parameter[0].numel() ** -0.5)
        else:
            parameter.uniform_(0.5, 1.5)
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if layer.running_mean is not None:
                layer.running_mean.normal_()
            if layer.running_var is not None:
                layer.running_var.uniform_(0.5, 1.5)


def _apart(first: Tensor, second: Tensor) -> float:
    size = first.abs().max().clamp(min=1e-30) if first.numel() else 1
    return float((first - second).abs().max() / size) if first.numel() else 0.0


def probe(block: nn.Module) -> Tensor:
    """A random input of the size the block's first layer takes."""
    parameter = next((p for p in block.parameters() if p.is_floating_point()), None)
    if parameter is None:
        raise NotConvertibleError("it has no parameters")
    if parameter.is_meta:
        raise NotConvertibleError("it is on the meta device, where nothing can be checked")
    for layer in block.modules():
        if isinstance(layer, nn.modules.conv._ConvNd):
            shape = (2, layer.in_channels, *(_SIZE for _ in layer.kernel_size))
            break
        if isinstance(layer, nn.Linear):
            shape = (2, layer.in_features)
            break
    else:
        raise NotConvertibleError("it has neither a convolution nor a linear layer, so its input is not known")
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).to(parameter)
