"""Residual networks: the baselines, and the class that the residual Π-nets are built with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.models.parts import Activation, Classifier, relu
from pinets.models.registry import register
from pinets.models.residual import BasicBlock, Bottleneck, JoinMaker, ResidualBlock, add

__all__ = ["ResNet", "Staged", "resnet_cifar", "resnet_imagenet", "small_stem"]


class Staged(nn.Module):
    """A network with stages of residual blocks, ``layer1``, ``layer2`` and so on, as torchvision names them."""

    def add_stages(
        self,
        block: type[ResidualBlock],
        depths: Sequence[int],
        *,
        width: int,
        first_stride: int,
        join: JoinMaker,
        activation: Activation,
    ) -> int:
        """Add the stages, each with twice the channels of the one before; returns the channels of the last.

        The first stage reduces height and width by ``first_stride``, the others halve them.
        """
        if not depths:
            raise ValueError("depths must have at least one stage, got none")
        for depth in depths:
            check_at_least_one("every one of depths", depth)
        self.stage_names = [f"layer{number}" for number, _ in enumerate(depths, 1)]
        channels = width
        for number, (name, depth) in enumerate(zip(self.stage_names, depths, strict=True)):
            blocks = []
            for position in range(depth):
                stride = 1 if position else (2 if number else first_stride)
                blocks.append(block(channels, width * 2**number, stride=stride, join=join, activation=activation))
                channels = blocks[-1].out_channels
            self.add_module(name, nn.Sequential(*blocks))
        return channels

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(len(self.get_submodule(name)._modules) for name in self.stage_names)


class ResNet(Staged, Classifier):
    """A residual network. The join of its blocks makes it a baseline or a Π-net.

    The attributes are torchvision's: ``conv1``, ``bn1``, ``layer1.0.conv1``, ..., ``fc``.

    Args:
        block: Class of the blocks.
        depths: Number of blocks in each stage; from the second on, each stage halves height and width.
        num_classes: Number of outputs; with 0 the network returns its pooled features.
        width: Channels inside the blocks of the first stage; every further stage doubles them.
        conv1: Makes the first convolution from the number of its outputs.
        maxpool: Reduces the size before the first stage; ``nn.Identity()`` for small images.
        join: Makes the join of a block.
        activation: Makes the activations; ``nn.Identity`` for none.
        after_stage: Layers after the first stages.
        draw: Draws the weight of a convolution; as torchvision by default.

    Example:
        >>> import torch
        >>> model = resnet_cifar(depths=(1, 1), width=8, num_classes=10)
        >>> x = torch.randn(2, 3, 32, 32)
        >>> model(x).shape, model.forward_features(x).shape
        (torch.Size([2, 10]), torch.Size([2, 16, 16, 16]))
    """

    def __init__(
        self,
        block: type[ResidualBlock],
        depths: Sequence[int],
        *,
        num_classes: int,
        width: int,
        conv1: Callable[..., nn.Conv2d],
        maxpool: nn.Module,
        join: JoinMaker,
        activation: Activation,
        after_stage: Sequence[nn.Module] = (),
        draw: Callable[[Tensor], object] | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one("width", width)
        self.conv1 = conv1(width, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = activation()
        self.maxpool = maxpool
        self.num_features = self.add_stages(
            block, depths, width=width, first_stride=1, join=join, activation=activation
        )
        self.after_stage = nn.ModuleList([*after_stage, *(nn.Identity() for _ in depths[len(after_stage) :])])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.reset_classifier(num_classes)
        self.draw = draw or partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")
        self._draw_convolutions()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._draw_convolutions()

    def _draw_convolutions(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                self.draw(module.weight)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for name, after in zip(self.stage_names, self.after_stage, strict=True):
            x = after(getattr(self, name)(x))
        return x

    def pooled(self, x: Tensor) -> Tensor:
        return self.avgpool(x).flatten(1)

    def extra_repr(self) -> str:
        return f"depths={list(self.depths)}, {super().extra_repr()}"


def small_stem(in_channels: int) -> Callable[..., nn.Conv2d]:
    """The first convolution for images of CIFAR's size: 3x3, stride 1."""
    return partial(nn.Conv2d, check_at_least_one("in_channels", in_channels), kernel_size=3, padding=1)


def large_stem(in_channels: int) -> Callable[..., nn.Conv2d]:
    """The first convolution for images of ImageNet's size: 7x7, stride 2."""
    return partial(nn.Conv2d, check_at_least_one("in_channels", in_channels), kernel_size=7, stride=2, padding=3)


def resnet_cifar(
    *,
    depths: Sequence[int],
    num_classes: int = 10,
    in_channels: int = 3,
    width: int = 64,
    join: JoinMaker = add,
) -> ResNet:
    """A ResNet of basic blocks for images of CIFAR's size."""
    return ResNet(
        BasicBlock,
        depths,
        num_classes=num_classes,
        width=width,
        conv1=small_stem(in_channels),
        maxpool=nn.Identity(),
        join=join,
        activation=relu,
    )


def resnet_imagenet(
    *,
    block: type[ResidualBlock],
    depths: Sequence[int],
    num_classes: int = 1000,
    in_channels: int = 3,
    width: int = 64,
    join: JoinMaker = add,
    activation: Activation = relu,
    maxpool: nn.Module | None = None,
) -> ResNet:
    """A ResNet for images of ImageNet's size; torchvision's weights load into the baselines."""
    return ResNet(
        block,
        depths,
        num_classes=num_classes,
        width=width,
        conv1=large_stem(in_channels),
        maxpool=nn.MaxPool2d(3, stride=2, padding=1) if maxpool is None else maxpool,
        join=join,
        activation=activation,
    )


_SMALL = partial(register, build=resnet_cifar, input_shape=(3, 32, 32), toy={"width": 4, "depths": (1, 2)})
_LARGE = partial(register, build=resnet_imagenet, input_shape=(3, 224, 224), toy={"width": 4, "depths": (1, 2)})

_SMALL("resnet18_cifar", depths=(2, 2, 2, 2), summary="ResNet18 for 32x32 images, the baseline")
_SMALL("resnet34_cifar", depths=(3, 4, 6, 3), summary="ResNet34 for 32x32 images, the baseline")
_SMALL(
    "resnet34_speech",
    depths=(3, 4, 6, 3),
    in_channels=1,
    num_classes=35,
    input_shape=(1, 32, 32),
    summary="ResNet34 for 32x32 log-mel images of 35 words, the baseline",
)
_LARGE("resnet18", block=BasicBlock, depths=(2, 2, 2, 2), summary="ResNet18; torchvision's weights load")
_LARGE("resnet34", block=BasicBlock, depths=(3, 4, 6, 3), summary="ResNet34; torchvision's weights load")
_LARGE("resnet50", block=Bottleneck, depths=(3, 4, 6, 3), summary="ResNet50; torchvision's weights load")
