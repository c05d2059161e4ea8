"""Turn a residual network into a Π-net that computes the same function at first."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import partial

from torch import nn

from pinets._nearest import did_you_mean
from pinets.convert.blocks import NotConvertibleError, SplitBlock
from pinets.convert.depth import drop_blocks
from pinets.convert.recognise import adds_its_input, is_candidate, recognise
from pinets.convert.report import Conversion, Report, count_parameters
from pinets.models.residual import JoinMaker, Multiply, ResidualBlock, Site, local_layers, scaled_product

__all__ = ["to_pinet"]

_UNKNOWN = "it adds its input to a branch, but its structure is not known; register_block can name its parts"


def to_pinet(
    model: nn.Module,
    *,
    tanh: bool = False,
    local_convs: int = 0,
    stages: Iterable[str] | None = None,
    depths: Sequence[int] | None = None,
    inplace: bool = False,
) -> Conversion:
    r"""Give the residual blocks of a network a second order, keeping its weights and, at first, its function.

    A block :math:`\mathrm{activation}(s + r)` becomes :math:`\mathrm{activation}(s + r + \alpha\,f(s * r))` with
    :math:`\alpha = 0`, so outputs stay equal to the last bit, as long as :math:`s * r` does not overflow
    (without ``tanh``, float32 and bfloat16 take activations up to about 1e19); the first step of training already moves
    :math:`\alpha`.
    It finds basic and bottleneck blocks with the layer names of torchvision and timm, those of :mod:`pinets.models`,
    and classes registered with :func:`pinets.convert.register_block`. Every block is checked with numbers first. A
    block that fails the check stays as it was, and the report says why.

    Args:
        model: Any network; it does not change, unless ``inplace``.
        tanh: Whether :math:`f` bounds the product, which stabilises training at scale.
        local_convs: The number of 1x1 convolutions in :math:`f`, each with instance norm and leaky ReLU.
        stages: The paths of the parts to convert, such as ``["layer3", "layer4"]``; the whole network by default.
        depths: Keep only so many blocks of each stage (:func:`pinets.convert.drop_blocks`), which changes the
            function; all by default.
        inplace: Whether to change the network itself instead of a copy.

    Returns:
        The network and a report.

    Example:
        >>> import torch
        >>> from pinets.models import create_model
        >>> resnet = create_model("resnet18_cifar", width=4).eval()
        >>> pinet, report = to_pinet(resnet, tanh=True)
        >>> x = torch.randn(2, 3, 32, 32)
        >>> torch.equal(pinet(x), resnet(x)), len(report.converted)
        (True, 8)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    if isinstance(local_convs, bool) or not isinstance(local_convs, int) or local_convs < 0:
        raise ValueError(f"local_convs must be a whole number of at least 0, got {local_convs!r}")
    wanted = _check_stages(model, stages)
    before = count_parameters(model)
    model = model if inplace else copy.deepcopy(model)
    report = Report()
    if depths is not None:
        report.dropped = drop_blocks(model, depths, inplace=True).report.dropped

    def layers(site: Site) -> list[nn.Module]:
        return [*([nn.Tanh()] if tanh else []), *local_layers(site, local_convs)]

    join = partial(scaled_product, layers=layers)
    converter = _Converter(join, local_convs > 0, _formula(tanh, local_convs), wanted, report)
    converted = converter.visit(model, "")
    report.parameters = (before, count_parameters(converted))
    if not report.converted:
        raise ValueError(f"there is no residual block that could be converted\n{report}")
    return Conversion(converted, report)


class _Converter:
    """Replaces the blocks of a network and records each in a report.

    Args:
        join: Makes the join of a converted block.
        needs_maps: Whether the join needs maps, (N, C, H, W).
        formula: The product, for the report.
        stages: The paths within which to convert.
        report: Records converted and kept blocks.
    """

    def __init__(self, join: JoinMaker, needs_maps: bool, formula: str, stages: list[str], report: Report) -> None:
        self.join = join
        self.needs_maps = needs_maps
        self.formula = formula
        self.stages = stages
        self.report = report
        self.made: dict[nn.Module, nn.Module] = {}  # a block may be used in several places
        self.seen: set[nn.Module] = set()  # and so may a container

    def visit(self, module: nn.Module, path: str) -> nn.Module:
        """The replacement of a module."""
        if is_candidate(module):
            try:
                converted = self.convert(module, path)
            except NotConvertibleError as error:
                self.report.kept[path] = str(error)
            else:
                self.report.converted[path] = self.formula
                return converted
        elif adds_its_input(module):
            self.report.kept[path] = _UNKNOWN
        if module in self.seen:
            return module
        self.seen.add(module)
        for name, child in list(module._modules.items()):
            if child is not None:
                module._modules[name] = self.visit(child, f"{path}.{name}".lstrip("."))
        return module

    def convert(self, block: nn.Module, path: str) -> nn.Module:
        if not any(stage in ("", path) or path.startswith(f"{stage}.") for stage in self.stages):
            raise NotConvertibleError("outside the stages to convert")
        if block not in self.made:
            self.made[block] = self.with_product(block)
        return self.made[block]

    def with_product(self, block: nn.Module) -> nn.Module:
        """The block with a product; a block of pinets only gets another join."""
        if isinstance(getattr(block, "join", None), Multiply):
            raise NotConvertibleError("it multiplies already")
        if isinstance(block, ResidualBlock):
            activation, weight = block.join.activation, block.conv1.weight
            site = Site(block.out_channels, block.downsample is None, lambda: activation)
            block.join = self.join(site).to(weight.device, weight.dtype).train(block.training)
            return block
        parts, out = recognise(block)
        if self.needs_maps and out.ndim != 4:
            raise NotConvertibleError(f"1x1 convolutions need maps, and its output has shape {tuple(out.shape)}")
        join = self.join(Site(out.shape[1], not parts.shortcut, nn.Identity))
        return SplitBlock(block, parts, join.to(out.device, out.dtype).train(block.training))


def _formula(tanh: bool, local_convs: int) -> str:
    """The product, for the report.

    >>> _formula(False, 0), _formula(True, 0), _formula(False, 2)
    ('alpha * (s * r)', 'alpha * tanh(s * r)', 'alpha * L(L(s * r))')
    """
    product = "tanh(s * r)" if tanh else "(s * r)"
    for number in range(local_convs):
        product = f"L{product}" if number == 0 and not tanh else f"L({product})"
    return f"alpha * {product}"


def _check_stages(model: nn.Module, stages: Iterable[str] | None) -> list[str]:
    if stages is None:
        return [""]
    if isinstance(stages, str):
        raise TypeError(f"stages must be a list of paths such as ['layer3', 'layer4'], got the text {stages!r}")
    known = [name for name, _ in model.named_modules() if name]
    wanted = list(stages)
    for stage in wanted:
        if stage not in known:
            raise ValueError(f"the network has no part {stage!r}{did_you_mean(stage, known)}")
    return wanted
