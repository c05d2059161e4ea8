"""Residual networks with the attribute names of torchvision, timm and others, written for these tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def norm(channels):
    layer = nn.BatchNorm2d(channels)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.normal_(layer.bias)
    nn.init.normal_(layer.running_mean)
    nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return layer


def projection(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))


class VisionBasic(nn.Module):
    """As in torchvision: one ReLU, used twice; the sum in place."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = norm(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = norm(channels)
        self.downsample = projection(inputs, channels, stride)
        self.stride = stride

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class VisionBottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 1, bias=False)
        self.bn1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, groups=2, bias=False)
        self.bn2 = norm(channels)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
        self.bn3 = norm(4 * channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = projection(inputs, 4 * channels, stride)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class DropPath(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training:
            return x
        return x * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(1 - self.rate) / (1 - self.rate)


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x * self.fc(x.mean((2, 3), keepdim=True)).sigmoid()


class TimmBasic(nn.Module):
    """As in timm, with its optional layers."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1, se=False, drop=0.0, aa=False, activation=nn.ReLU):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, 1 if aa else stride, 1, bias=False)
        self.bn1 = norm(channels)
        self.drop_block = nn.Identity()
        self.act1 = activation()
        self.aa = nn.AvgPool2d(stride) if aa else nn.Identity()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = norm(channels)
        self.se = Squeeze(channels) if se else None
        self.drop_path = DropPath(drop) if drop else None
        self.act2 = activation()
        self.downsample = projection(inputs, channels, stride)

    def forward(self, x):
        shortcut = x
        x = self.act1(self.drop_block(self.bn1(self.conv1(x))))
        x = self.bn2(self.conv2(self.aa(x)))
        if self.se is not None:
            x = self.se(x)
        if self.drop_path is not None:
            x = self.drop_path(x)
        if self.downsample is not None:
            shortcut = self.downsample(shortcut)
        x += shortcut
        return self.act2(x)


class FunctionalBasic(nn.Module):
    """Activations as functions, and an empty sequence for a shortcut."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = norm(channels)
        self.shortcut = projection(inputs, channels, stride) or nn.Sequential()

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class Normed(nn.Module):
    """A basic block with another name for its norms."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.norm1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = norm(channels)
        self.downsample = projection(inputs, channels, stride)

    def forward(self, x):
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Plain(nn.Module):
    """Residual, without any name by which it would be known."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        first, second = nn.Conv2d(inputs, channels, 3, stride, 1), nn.Conv2d(channels, channels, 3, 1, 1)
        self.body = nn.Sequential(first, norm(channels), nn.ReLU(), second, norm(channels))
        self.match = projection(inputs, channels, stride) or nn.Identity()

    def forward(self, x):
        return F.relu(self.match(x) + self.body(x))


class Gated(nn.Module):
    """Two branches, of which none is a shortcut."""

    expansion = 1

    def __init__(self, inputs, channels, stride=1):
        super().__init__()
        self.first, self.second = (nn.Conv2d(inputs, channels, 3, stride, 1) for _ in range(2))

    def forward(self, x):
        return self.first(x) + self.second(x)


class Untraceable(Plain):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


class LinearSum(VisionBasic):
    """No activation after the sum."""

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return out + (x if self.downsample is None else self.downsample(x))


class PreActivation(VisionBasic):
    """The same layers in another order."""

    def forward(self, x):
        out = self.conv1(F.relu(self.bn_first(x)))
        return self.conv2(F.relu(self.bn2(out))) + x

    def __init__(self, inputs, channels, stride=1):
        super().__init__(channels, channels)

    @property
    def bn_first(self):
        return self.bn1


class ScaledBranch(VisionBasic):
    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(0.2 * out + (x if self.downsample is None else self.downsample(x)))


class Clipped(VisionBasic):
    """With activations that end at 20, where ordinary inputs never get."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        del self.relu

    def forward(self, x):
        branch = self.bn2(self.conv2(self.bn1(self.conv1(x)).clamp(0, 20)))
        return (x + branch).clamp(0, 20)


class FunctionalDropout(VisionBasic):
    """Differs from what it seems while training only."""

    def forward(self, x):
        out = F.dropout(self.relu(self.bn1(self.conv1(x))), 0.5, self.training)
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ExtraLayer(VisionBasic):
    def __init__(self, inputs, channels, stride=1):
        super().__init__(inputs, channels, stride)
        self.attention = Squeeze(channels)

    def forward(self, x):
        out = self.bn2(self.conv2(self.attention(self.relu(self.bn1(self.conv1(x))))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class OwnParameter(VisionBasic):
    def __init__(self, inputs, channels, stride=1):
        super().__init__(inputs, channels, stride)
        self.gamma = nn.Parameter(torch.ones(()))


class TwoInputs(VisionBasic):
    def forward(self, x, y):
        return super().forward(x) + y


class OptionalInput(VisionBasic):
    """A network calls it with a shift, or without."""

    def forward(self, x, shift=None):
        return super().forward(x if shift is None else x + shift)


class Network(nn.Module):
    """Named as torchvision's and timm's."""

    def __init__(self, block, depths=(2, 2), width=4, **options):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = norm(width)
        self.relu = nn.ReLU(inplace=True)
        inputs = width
        for stage, depth in enumerate(depths):
            blocks = []
            for position in range(depth):
                stride = 2 if stage and not position else 1
                blocks.append(block(inputs, width * 2**stage, stride, **options))
                inputs = width * 2**stage * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.stages = len(depths)
        self.fc = nn.Linear(inputs, 3)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))
