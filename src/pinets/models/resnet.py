"""Residual networks: the baselines, and the frame in which the residual Π-nets are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.models.blocks import BasicBlock, Bottleneck, ResidualBlock
from pinets.models.choices import Activation, relu
from pinets.models.head import make_classifier
from pinets.models.join import JoinMaker, add
from pinets.models.registry import register
from pinets.models.reset import reset_layers

__all__ = ["ResNet", "resnet_cifar", "resnet_imagenet", "small_stem"]


class ResNet(nn.Module):
    """A residual network; with the blocks' join as an argument, also a Π-net.

    The attributes are torchvision's: ``conv1``, ``bn1``, ``layer1.0.conv1``, ..., ``fc``.

    Args:
        block: The kind of block.
        depths: The number of blocks in each stage; from the second on, each halves height and width.
        num_classes: Outputs; 0 for none, so that the network returns its pooled features.
        width: Channels inside the blocks of the first stage; every further stage doubles them.
        conv1: Makes the first convolution, from the number of its outputs.
        maxpool: What reduces the size before the first stage; ``nn.Identity()`` for small images.
        join: Makes what puts shortcut and branch together.
        activation: Makes the activations; ``nn.Identity`` for none.
        after_stage: Applied after the stages, the first after the first; nothing where left out.
        draw: Draws the weight of a convolution; as torchvision if left out.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one("width", width)
        if not depths:
            raise ValueError("depths must have at least one stage, got none")
        for depth in depths:
            check_at_least_one("every one of depths", depth)
        self.conv1 = conv1(width, bias=False, device=device, dtype=dtype)
        self.bn1 = nn.BatchNorm2d(width, device=device, dtype=dtype)
        self.relu = activation()
        self.maxpool = maxpool
        self.stage_names = [f"layer{number}" for number, _ in enumerate(depths, 1)]
        channels = width
        for number, (name, depth) in enumerate(zip(self.stage_names, depths, strict=True)):
            blocks = []
            inside = width * 2**number
            for position in range(depth):
                stride = 2 if position == 0 and number > 0 else 1
                blocks.append(
                    block(
                        channels,
                        inside,
                        stride=stride,
                        join=join,
                        activation=activation,
                        device=device,
                        dtype=dtype,
                    )
                )
                channels = inside * block.expansion
            self.add_module(name, nn.Sequential(*blocks))
        self.after_stage = nn.ModuleList([*after_stage, *(nn.Identity() for _ in depths[len(after_stage) :])])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.num_features = channels
        self.fc: nn.Module
        self.reset_classifier(num_classes)
        self.draw = draw or partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")
        self._draw_convolutions()

    def reset_parameters(self) -> None:
        """Start anew: as a network that is made with the same seed."""
        reset_layers(self)
        self._draw_convolutions()

    def _draw_convolutions(self) -> None:
        """Other layers start as they were made."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                self.draw(module.weight)

    def reset_classifier(
        self, num_classes: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        """Put a fresh classifier on top; 0 classes for none. Device and type are those of the network if left out."""
        like = next(self.parameters())
        self.fc = make_classifier(self.num_features, num_classes, like=like, device=device, dtype=dtype)
        self.num_classes = num_classes

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(len(self.get_submodule(name)._modules) for name in self.stage_names)

    def forward_features(self, x: Tensor) -> Tensor:
        """The map of features after the last stage."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for name, after in zip(self.stage_names, self.after_stage, strict=True):
            x = after(getattr(self, name)(x))
        return x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """From the map of features to the outputs, or to the pooled features that the classifier would see."""
        x = self.avgpool(x).flatten(1)
        return x if pre_logits else self.fc(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def extra_repr(self) -> str:
        return f"depths={list(self.depths)}, num_features={self.num_features}, num_classes={self.num_classes}"


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
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
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
        device=device,
        dtype=dtype,
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
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
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
        device=device,
        dtype=dtype,
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
