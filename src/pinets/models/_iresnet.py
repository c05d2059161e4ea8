r"""IR-ResNet, the residual network of ArcFace, which embeds aligned faces; and its Π-net.

Prodpoly-IR-ResNet has blocks :math:`s + r + \mathrm{BN}(W \tanh(s * r))`, with :math:`W` a 1x1 convolution. The scale
of that batch norm starts at 0, so a fresh network computes what the baseline does, also with the baseline's weights
(:mod:`pinets.models.insightface`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.models.parts import reset_layers
from pinets.models.registry import register
from pinets.models.residual import JoinMaker, ResidualBlock, add, convolution, mixed_tanh_product
from pinets.models.resnet import Staged

__all__ = ["IResNet", "ImprovedBlock"]


class ImprovedBlock(ResidualBlock):
    """BN, 3x3 convolution, BN, PReLU, 3x3 convolution with the stride, BN; no activation after the sum.

    The arguments are those of :class:`pinets.models.residual.ResidualBlock`, the attributes insightface's.
    """

    def add_branch(self, in_channels: int, channels: int, stride: int) -> None:
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = convolution(in_channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.prelu = nn.PReLU(channels)
        self.conv2 = convolution(channels, channels, 3, stride)
        self.bn3 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out = self.prelu(self.bn2(self.conv1(self.bn1(x))))
        return self.join(self.shortcut(x), self.bn3(self.conv2(out)))


class IResNet(Staged):
    """Embeds faces. The join of its blocks makes it a baseline or a Π-net; the defaults are IR-ResNet50's, for 112x112.

    The attributes are insightface's: ``conv1``, ``bn1``, ``prelu``, ``layer1.0.bn1``, ..., ``fc``, ``features``. Pixels
    are normalised as (x - 127.5) / 128.

    Args:
        depths: Number of blocks in each stage; each stage halves height and width.
        width: Channels of the first stage; every further stage doubles them.
        embedding: Size of an embedding.
        size: Height and width of the images.
        in_channels: Channels of the images.
        dropout: The share of the last map that is dropped while training.
        eps: Epsilon of the batch norms: 2e-5 as in MXNet, 1e-5 in insightface's torch networks.
        join: Makes the join of a block.

    Example:
        >>> import torch
        >>> model = IResNet(depths=(1, 1), width=8, embedding=16, size=32).eval()
        >>> faces = torch.randn(2, 3, 32, 32)
        >>> model(faces).shape, model.forward_features(faces).shape
        (torch.Size([2, 16]), torch.Size([2, 16, 8, 8]))
    """

    def __init__(
        self,
        *,
        depths: Sequence[int] = (3, 4, 14, 3),
        width: int = 64,
        embedding: int = 512,
        size: int = 112,
        in_channels: int = 3,
        dropout: float = 0.4,
        eps: float = 2e-5,
        join: JoinMaker = add,
    ) -> None:
        super().__init__()
        for name, value in (("width", width), ("embedding", embedding), ("in_channels", in_channels)):
            check_at_least_one(name, value)
        if size < 2 ** len(depths):
            raise ValueError(
                f"size must be at least {2 ** len(depths)}, since {len(depths)} stages halve it, got {size}"
            )
        self.size, self.in_channels = size, in_channels
        self.conv1 = convolution(in_channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        self.prelu = nn.PReLU(width)
        self.num_features = self.add_stages(
            ImprovedBlock, depths, width=width, first_stride=2, join=join, activation=nn.Identity
        )
        side = -(-size // 2 ** len(depths))  # every stride of 2 rounds up
        self.embedding = embedding
        self.bn2 = nn.BatchNorm2d(self.num_features)
        self.dropout = nn.Dropout(dropout, inplace=True)
        self.fc = nn.Linear(self.num_features * side**2, embedding)
        self.features = nn.BatchNorm1d(embedding)
        self.features.weight.requires_grad_(False)  # fixed at 1: only the direction of an embedding counts
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eps = eps
        self._draw_weights()

    def reset_parameters(self) -> None:
        """Draw every parameter anew, as for a network built with the same seed."""
        reset_layers(self)
        self._draw_weights()

    def _draw_weights(self) -> None:
        """Draw the weights of convolutions and ``fc`` from N(0, 2 / fan_out)."""
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward_features(self, x: Tensor) -> Tensor:
        """The map of features after the last stage."""
        x = self.prelu(self.bn1(self.conv1(x)))
        for name in self.stage_names:
            x = getattr(self, name)(x)
        return x

    def forward_head(self, x: Tensor) -> Tensor:
        """From the map of features to the embedding."""
        return self.features(self.fc(self.dropout(self.bn2(x)).flatten(1)))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:] != (self.in_channels, self.size, self.size):
            expected = (self.in_channels, self.size, self.size)
            raise ValueError(f"faces must have shape {expected}, got a batch of shape {tuple(x.shape)}")
        return self.forward_head(self.forward_features(x))

    def extra_repr(self) -> str:
        return f"depths={list(self.depths)}, size={self.size}, embedding={self.embedding}"


_EMBEDDING = partial(
    register,
    task="faces",
    input_shape=(3, 112, 112),
    toy={"width": 8, "depths": (1, 2), "embedding": 16, "size": 32},
)
_BASELINE = partial(_EMBEDDING, build=IResNet)
_PRODPOLY = partial(_EMBEDDING, build=IResNet, join=mixed_tanh_product)

_BASELINE("iresnet18", depths=(2, 2, 2, 2), summary="IR-ResNet18, embeds faces; insightface's weights load")
_BASELINE("iresnet34", depths=(3, 4, 6, 3), summary="IR-ResNet34, embeds faces; insightface's weights load")
_BASELINE("iresnet50", summary="IR-ResNet50, embeds faces, the baseline; insightface's weights load")
_PRODPOLY("prodpoly_iresnet18", depths=(2, 2, 2, 2), summary="Prodpoly-IR-ResNet18, embeds faces")
_PRODPOLY("prodpoly_iresnet34", depths=(3, 4, 6, 3), summary="Prodpoly-IR-ResNet34, embeds faces")
_PRODPOLY("prodpoly_iresnet50", summary="Prodpoly-IR-ResNet50, embeds faces; 4 % more parameters than the baseline")
