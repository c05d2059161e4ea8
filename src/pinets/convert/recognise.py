"""Find residual blocks by the names of their layers, and check them with numbers."""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, fx, nn

from pinets.convert.blocks import Layer, NotConvertibleError, Parts, SplitBlock, registered_parts
from pinets.models.residual import Add

__all__ = ["adds_its_input", "is_candidate", "probe", "recognise"]

_SCALES = (1.0, 1e3)  # of probes: the large one saturates clipped activations
_SIZE = 16  # height and width of the probe
_ROUNDING = 1e-5  # for sums in another order; a layer in another place makes a difference of order one
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")


def is_candidate(module: nn.Module) -> bool:
    """Whether a module may be a residual block: its class is registered, or it has the usual layers."""
    children = dict(module.named_children())
    usual = "conv1" in children and "conv2" in children
    has_shortcut = "downsample" in module._modules or "shortcut" in module._modules
    return registered_parts(module) is not None or usual or (has_shortcut and "conv1" in children)


def recognise(block: nn.Module) -> tuple[Parts, Tensor]:
    """The parts of a block, checked with numbers, and an output of it; else :class:`NotConvertibleError`."""
    _refuse_what_would_be_lost(block)
    registered = registered_parts(block)
    if registered is None:  # a network may use an argument beside the input though it is optional
        taken = inspect.signature(block.forward).parameters.values()
        further = [one.name for one in taken if one.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")][1:]
        if further:
            raise NotConvertibleError(f"it takes {further[0]!r} beside its input, which would be lost")
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
        f"{min(differences):.1g} of its size; register_block can name its parts"
    )


def _refuse_what_would_be_lost(block: nn.Module) -> None:
    if isinstance(block, torch.jit.ScriptModule):
        raise NotConvertibleError("it is a TorchScript module")
    if any(
        getattr(block, hooks)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    ):
        raise NotConvertibleError("it has hooks, which would be lost")
    own = [*block._parameters, *block._buffers]
    if own:
        raise NotConvertibleError(f"it has a parameter or buffer {own[0]!r} outside its layers")


def _unaccounted(block: nn.Module, parts: Parts) -> str:
    """Why the parts are not a complete list of the block's layers; empty if they are."""
    for name, layer in block.named_children():
        if name not in parts.names and not isinstance(layer, nn.Identity):
            return f"the place of its layer {name!r} ({type(layer).__name__}) is not known; register_block can name it"
    missing = [name for name in parts.names if not isinstance(getattr(block, name, None), nn.Module)]
    return f"it has no layer {missing[0]!r}" if missing else ""


def _usual_parts(block: nn.Module) -> Iterator[Parts]:
    """The parts of a block with the layer names of torchvision or timm, the likeliest first."""

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
    """The largest relative difference between a block and its parts, in evaluation and training; and an output."""
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
                raise NotConvertibleError("its output does not have the shape of its branch and shortcut")
            worst = max([worst, _apart(out, again), *map(_apart, theirs.buffers(), ours.buffers())])
            outputs.append(out)
    return worst, outputs[0]


def _run(module: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(0)  # the same random numbers in every run, for drop_path
    try:
        out = module(x)
    except Exception as error:  # unknown code may raise anything
        raise NotConvertibleError(f"it does not run on an input of shape {tuple(x.shape)}: {error}") from error
    if not isinstance(out, Tensor):
        raise NotConvertibleError(f"its output is not a tensor but {type(out).__name__}")
    return out


def _randomise(module: nn.Module) -> None:
    """Draw all weights: a branch that starts at zero, a usual trick, would hide its layers."""
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
    """The largest difference, relative to the size of the first."""
    if not first.numel():
        return 0.0
    return float((first - second).abs().max() / first.abs().max().clamp(min=1e-30))


def probe(block: nn.Module) -> Tensor:
    """A random input of the size that the block's first layer takes."""
    parameter = next((p for p in block.parameters() if p.is_floating_point()), None)
    if parameter is None:
        raise NotConvertibleError("it has no parameters")
    if parameter.is_meta:
        raise NotConvertibleError("it is on the meta device, where it cannot be checked")
    for layer in block.modules():
        if isinstance(layer, nn.modules.conv._ConvNd):
            shape = (2, layer.in_channels, *(_SIZE for _ in layer.kernel_size))
            break
        if isinstance(layer, nn.Linear):
            shape = (2, layer.in_features)
            break
    else:
        raise NotConvertibleError("it has neither a convolution nor a linear layer, so its input shape is not known")
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).to(parameter)


class _OneLevel(fx.Tracer):
    """Trace the forward of a module, with its children as leaves."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def adds_its_input(module: nn.Module) -> bool:
    """Whether a module adds its input, or a projection of it, to a branch; False if it cannot be traced."""
    if type(module).__module__.startswith(("torch.nn.", "pinets.")):
        return False  # containers and layers; the residual blocks of pinets are candidates
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = _OneLevel().trace(copy.copy(module))  # a copy, since forward may set attributes
    except Exception:  # unknown code may raise anything when it is traced
        return False
    x = next((node for node in graph.nodes if node.op == "placeholder"), None)
    return x is not None and any(_joins(node, x, module) for node in graph.nodes)


def _joins(node: fx.Node, x: fx.Node, module: nn.Module) -> bool:
    """Whether a node adds a branch of ``x`` to ``x``, or to a single layer of ``x``."""
    operands = [argument for argument in node.args if isinstance(argument, fx.Node)]
    if node.target not in _SUMS or len(operands) != 2:
        return False
    for shortcut, branch in itertools.permutations(operands):
        is_projection = shortcut.op == "call_module" and shortcut.all_input_nodes == [x]
        layers = _layers(shortcut, module)
        if (shortcut is x or (is_projection and layers <= 1)) and x in _origins(branch):
            return _layers(branch, module) > layers
    return False


def _origins(node: fx.Node) -> set[fx.Node]:
    """The node and everything it is computed from."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += current.all_input_nodes
    return found


def _layers(node: fx.Node, module: nn.Module) -> int:
    """The number of layers with weights, such as convolutions, that a node is computed with."""
    called = [module.get_submodule(str(origin.target)) for origin in _origins(node) if origin.op == "call_module"]
    parts = [part for child in called for part in child.modules()]
    return sum(any(weight.ndim > 1 for weight in part.parameters(recurse=False)) for part in parts)
