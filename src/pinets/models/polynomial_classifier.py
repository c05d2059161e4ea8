r"""Classifiers that are one polynomial of the image, shallow enough for encrypted inference.

The state of a CCP is a product, :math:`u_1 * (1 + u_2) * \dots * (1 + u_N)`, so a tree of multiplications computes it
in :math:`\lceil \log_2 N \rceil` levels; ``pinets encrypt plan`` counts them.
"""

from __future__ import annotations

from functools import partial
from math import prod

from torch import Tensor, nn

from pinets.layers import CCP
from pinets.layers.initialization import draw_coupled_weights
from pinets.models.parts import Classifier
from pinets.models.registry import register
from pinets.polynomial import Polynomial

__all__ = ["PolynomialClassifier", "ccp_classifier", "ccp_conv_classifier"]


class CCPState(Polynomial):
    """A CCP without its head: the last state."""

    def __init__(self, ccp: CCP) -> None:
        super().__init__(ccp.start, ccp.steps)
        self.rank = ccp.rank

    def reset_parameters(self) -> None:
        """Draw the factors as the CCP does."""
        draw_coupled_weights([self.start, *(step.gate for step in self.steps)], self.rank)


class PolynomialClassifier(Classifier):
    """A polynomial, and a linear classifier on its last state.

    Args:
        features: The polynomial, which maps each image to a vector or a map.
        num_features: Size of the flattened vector or map.
        num_classes: Number of outputs; 0 for no classifier.
    """

    def __init__(self, features: nn.Module, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.features = features
        self.num_features = num_features
        self.reset_classifier(num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        return self.features(x).flatten(1)

    def pooled(self, x: Tensor) -> Tensor:
        return x


def ccp_classifier(
    *, image: tuple[int, int, int] = (1, 28, 28), num_classes: int = 10, rank: int = 128, order: int = 4
) -> PolynomialClassifier:
    """A CCP of the image's pixels.

    Args:
        image: Channels, height and width.
        num_classes: Number of outputs; 0 for no classifier.
        rank: Size of the state.
        order: The degree in the image.

    Example:
        >>> import torch
        >>> ccp_classifier(rank=16)(torch.randn(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    state = CCPState(CCP(prod(image), 1, rank=rank, order=order))
    return PolynomialClassifier(nn.Sequential(nn.Flatten(), state), rank, num_classes)


def ccp_conv_classifier(
    *,
    image: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    channels: int = 16,
    kernel: int = 6,
    stride: int = 4,
    order: int = 4,
) -> PolynomialClassifier:
    """A CCP whose operators are convolutions of the image, and a linear classifier on its map.

    Args:
        image: Channels, height and width.
        num_classes: Number of outputs; 0 for no classifier.
        channels: Channels of the state.
        kernel: Height and width of the convolutions.
        stride: Pixels between two positions.
        order: The degree in the image.

    Example:
        >>> import torch
        >>> ccp_conv_classifier(channels=4)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    padding = max(0, kernel - stride + 1) // 2
    op = partial(nn.Conv2d, kernel_size=kernel, stride=stride, padding=padding)
    ccp = CCP(image[0], 1, rank=channels, order=order, op=op, head_op=nn.Linear)
    positions = prod((size + 2 * padding - kernel) // stride + 1 for size in image[1:])
    return PolynomialClassifier(CCPState(ccp), channels * positions, num_classes)


_CCP = partial(register, build=ccp_classifier, input_shape=(1, 28, 28), toy={"rank": 4})

_CCP("ccp4_mnist", summary="a CCP of order 4 of a 28x28 image, for encrypted inference")
_CCP("ccp8_mnist", order=8, summary="a CCP of order 8 of a 28x28 image, for encrypted inference")
register(
    "ccp4_conv_cifar",
    ccp_conv_classifier,
    input_shape=(3, 32, 32),
    toy={"channels": 4},
    summary="a convolutional CCP of order 4 of a 32x32 image, for encrypted inference",
)
