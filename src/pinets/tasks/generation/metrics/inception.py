"""The Inception network that FID is defined by: TensorFlow's of 2015-12-05, with its own resizing, in plain torch.

It is not the network of torchvision: its average pools leave out the padding, its last block pools by the maximum, and
it resizes images as TensorFlow 1 did. The names of the layers are those of the published weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["FEATURES", "SIZE", "Inception", "fold_batch_norm", "resize_like_tensorflow"]

SIZE = 299  # height and width of the input
FEATURES = {
    64: "MaxPool_1",
    192: "MaxPool_2",
    768: "Mixed_6e",
    2048: "Mixed_7c",
}  # number of features -> the layer they come from
CLASSES = 1008  # TensorFlow's, of which 1000 are used

Kernel = int | tuple[int, int]
Branch = Sequence[Mapping[str, nn.Module]]


class Unit(nn.Module):
    """Convolution, batch norm, ReLU; without padding where it strides."""

    def __init__(self, width: int, out: int, kernel: Kernel, stride: int = 1, padding: str | int = "same") -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, out, kernel, stride, padding=0 if stride > 1 else padding, bias=False)
        self.bn: nn.Module = nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Mixed(nn.Module):
    """Branches side by side, concatenated; each is a chain whose last link may be several modules side by side."""

    def __init__(self, *branches: Branch) -> None:
        super().__init__()
        self.branches = [[tuple(link) for link in branch] for branch in branches]
        for branch in branches:
            for link in branch:
                for name, module in link.items():
                    self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([out for branch in self.branches for out in self._run(branch, x)], dim=1)

    def _run(self, branch: Sequence[tuple[str, ...]], x: Tensor) -> list[Tensor]:
        out = [x]
        for names in branch:
            out = [self.get_submodule(name)(out[0]) for name in names]
        return out


def _chain(name: str, *units: tuple) -> list[dict[str, nn.Module]]:
    """Units one after the other, with the names the weights have: a number is added where there are several."""
    return [{name if len(units) == 1 else f"{name}_{i}": Unit(*unit)} for i, unit in enumerate(units, start=1)]


def _average_pool() -> dict[str, nn.Module]:
    return {"pool": nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)}


def _maximum_pool(stride: int) -> dict[str, nn.Module]:
    return {"pool": nn.MaxPool2d(3, stride, padding=1 if stride == 1 else 0)}


def _mixed_5(width: int, pooled: int) -> Mixed:
    return Mixed(
        _chain("branch1x1", (width, 64, 1)),
        _chain("branch5x5", (width, 48, 1), (48, 64, 5)),
        _chain("branch3x3dbl", (width, 64, 1), (64, 96, 3), (96, 96, 3)),
        [_average_pool(), *_chain("branch_pool", (width, pooled, 1))],
    )


def _mixed_6(c: int) -> Mixed:
    row, column = (1, 7), (7, 1)
    return Mixed(
        _chain("branch1x1", (768, 192, 1)),
        _chain("branch7x7", (768, c, 1), (c, c, row), (c, 192, column)),
        _chain("branch7x7dbl", (768, c, 1), (c, c, column), (c, c, row), (c, c, column), (c, 192, row)),
        [_average_pool(), *_chain("branch_pool", (768, 192, 1))],
    )


def _mixed_7(width: int, pool: dict[str, nn.Module]) -> Mixed:
    def fork(name: str) -> dict[str, nn.Module]:
        return {f"{name}a": Unit(384, 384, (1, 3)), f"{name}b": Unit(384, 384, (3, 1))}

    return Mixed(
        _chain("branch1x1", (width, 320, 1)),
        [{"branch3x3_1": Unit(width, 384, 1)}, fork("branch3x3_2")],
        [*_chain("branch3x3dbl", (width, 448, 1), (448, 384, 3)), fork("branch3x3dbl_3")],
        [pool, *_chain("branch_pool", (width, 192, 1))],
    )


def _layers() -> dict[str, nn.Module]:
    return {
        "Conv2d_1a_3x3": Unit(3, 32, 3, 2),
        "Conv2d_2a_3x3": Unit(32, 32, 3, padding=0),
        "Conv2d_2b_3x3": Unit(32, 64, 3),
        "MaxPool_1": nn.MaxPool2d(3, 2),
        "Conv2d_3b_1x1": Unit(64, 80, 1),
        "Conv2d_4a_3x3": Unit(80, 192, 3, padding=0),
        "MaxPool_2": nn.MaxPool2d(3, 2),
        "Mixed_5b": _mixed_5(192, 32),
        "Mixed_5c": _mixed_5(256, 64),
        "Mixed_5d": _mixed_5(288, 64),
        "Mixed_6a": Mixed(
            _chain("branch3x3", (288, 384, 3, 2)),
            _chain("branch3x3dbl", (288, 64, 1), (64, 96, 3), (96, 96, 3, 2)),
            [_maximum_pool(stride=2)],
        ),
        "Mixed_6b": _mixed_6(128),
        "Mixed_6c": _mixed_6(160),
        "Mixed_6d": _mixed_6(160),
        "Mixed_6e": _mixed_6(192),
        "Mixed_7a": Mixed(
            _chain("branch3x3", (768, 192, 1), (192, 320, 3, 2)),
            _chain("branch7x7x3", (768, 192, 1), (192, 192, (1, 7)), (192, 192, (7, 1)), (192, 192, 3, 2)),
            [_maximum_pool(stride=2)],
        ),
        "Mixed_7b": _mixed_7(1280, _average_pool()),
        "Mixed_7c": _mixed_7(2048, _maximum_pool(stride=1)),
    }


class Inception(nn.Module):
    """Features of images, for FID and its relatives; also what ``torchmetrics`` takes as its ``feature``.

    Args:
        num_features: 2048 for FID; 64, 192 and 768 are averages of earlier layers.
        classifier: The last layer, for the Inception score; the features need none.

    Example:
        >>> network = Inception(64).eval()
        >>> network(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 64])
    """

    def __init__(self, num_features: int = 2048, classifier: nn.Linear | None = None) -> None:
        super().__init__()
        if num_features not in FEATURES:
            raise ValueError(f"num_features must be one of {', '.join(map(str, FEATURES))}, got {num_features}")
        self.num_features = num_features
        self.name = f"inception-2015-12-05/{num_features}"
        layers = _layers()
        self.order = list(layers)[: list(layers).index(FEATURES[num_features]) + 1]
        for name in self.order:
            self.add_module(name, layers[name])
        self.fc = classifier

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, num_features) of images (N, 3, H, W) with values from 0 to 255."""
        x = resize_like_tensorflow(images.to(self._weight), SIZE)
        x = (x - 128) / 128
        if self._weight.is_contiguous(memory_format=torch.channels_last):
            x = x.contiguous(memory_format=torch.channels_last)
        for name in self.order:
            x = self.get_submodule(name)(x)
        return x.mean(dim=(2, 3))

    def log_probabilities(self, features: Tensor) -> Tensor:
        """The classes of images, given their features: without the layer's bias, as the Inception score is defined."""
        if self.fc is None:
            raise ValueError("these weights have no last layer (fc), which tells the classes of images")
        return F.linear(features, self.fc.weight).log_softmax(dim=1)

    @property
    def _weight(self) -> Tensor:
        return self.get_submodule("Conv2d_2a_3x3").conv.weight  # type: ignore[union-attr, return-value]


def resize_like_tensorflow(images: Tensor, size: int) -> Tensor:
    """Resize as TensorFlow 1 did: pixel ``i`` of the result lies at ``i * old / new`` of the image, without a shift by
    half a pixel, and is interpolated between the two pixels next to it.

    >>> resize_like_tensorflow(torch.tensor([[[[0.0, 8.0], [0.0, 8.0]]]]), 4)[0, 0, 0]
    tensor([0., 4., 8., 8.])
    """
    height, width = images.shape[-2:]
    if (height, width) == (size, size):
        return images
    return _interpolation(height, size, images) @ images @ _interpolation(width, size, images).T


def _interpolation(old: int, new: int, like: Tensor) -> Tensor:
    """The matrix (new, old) of the weights of old pixels in new ones."""
    place = torch.arange(new, device=like.device, dtype=torch.float32) * (old / new)
    before = place.long().clamp(max=old - 1)
    after = (before + 1).clamp(max=old - 1)
    fraction = (place - before).to(like.dtype)
    matrix = torch.zeros(new, old, device=like.device, dtype=like.dtype)
    matrix.scatter_add_(1, before[:, None], 1 - fraction[:, None])
    return matrix.scatter_add_(1, after[:, None], fraction[:, None])


def fold_batch_norm(network: Inception) -> Inception:
    """Put each batch norm's factor and shift into the convolution before it: the same function, in less time."""
    for unit in network.modules():
        if isinstance(unit, Unit) and isinstance(unit.bn, nn.BatchNorm2d):
            unit.conv = fuse_conv_bn_eval(unit.conv, unit.bn)
            unit.bn = nn.Identity()
    return network
