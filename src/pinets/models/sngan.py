r"""SNGAN for images of 32x32: residual generator and discriminator, and the generator as a polynomial.

The baseline's generator is :math:`h_n = \mathrm{block}_n(h_{n-1})`. As an NCP each residual block is one order,

.. math:: h_n = (A_n z + a_n) * \mathrm{block}_n(h_{n-1}),

with a thin layer of the noise, one number per channel, as the gate. Its bias starts at 1; the paper's bias vector is
that of the block's last convolution. ProdPoly puts a polynomial of vectors before it,

.. math:: z' = z + \alpha \, (A z) * (S z + b),

with :math:`\alpha` from 0: the product starts as the single polynomial. (An NCP in its place would start with a third
of the noise's effective rank.) The activations of the blocks stay. The paper does not give the details of these
polynomials; they are our choice.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from pinets.layers.initialization import draw_weight
from pinets.models.generator import ImageGenerator, check_image, to_map
from pinets.models.parts import relu
from pinets.models.registry import register
from pinets.models.residual import Scale
from pinets.polynomial import Polynomial, Step

__all__ = [
    "SNGANDiscriminator",
    "UpBlock",
    "sngan_discriminator",
    "sngan_generator",
    "sngan_ncp_generator",
    "sngan_prodpoly_generator",
]

_GATE_VARIANCE = 0.01  # of a gate around its bias, 1: it starts near the baseline


class UpBlock(nn.Module):
    """Double height and width: a 1x1 convolution as the shortcut, and BN, ReLU, up, 3x3, BN, ReLU, 3x3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(channels),
            relu(),
            nn.Upsample(scale_factor=2),
            _xavier(nn.Conv2d(channels, channels, 3, padding=1), gain=2**0.5),
            nn.BatchNorm2d(channels),
            relu(),
            _xavier(nn.Conv2d(channels, channels, 3, padding=1), gain=2**0.5),
        )
        # a 1x1 convolution and the repetition of pixels commute: convolve the smaller map
        self.shortcut = nn.Sequential(_xavier(nn.Conv2d(channels, channels, 1)), nn.Upsample(scale_factor=2))

    def forward(self, x: Tensor) -> Tensor:
        return self.branch(x) + self.shortcut(x)


def sngan_generator(*, size: int = 32, channels: int = 3, width: int = 256, latent: int = 128) -> ImageGenerator:
    """The baseline: residual blocks from 4x4 on, each doubling the size.

    Args:
        size: Height and width of the images, a power of two.
        channels: Channels of the images.
        width: Channels of all maps.
        latent: Size of the noise.

    Example:
        >>> sum(parameter.numel() for parameter in sngan_generator().parameters())
        4276739
    """
    start, blocks, head = _parts(size, channels, width, latent)
    return ImageGenerator(nn.Sequential(start, *blocks, head), latent=latent)


def sngan_ncp_generator(*, size: int = 32, channels: int = 3, width: int = 256, latent: int = 128) -> ImageGenerator:
    """The baseline as an NCP, each block one order; the arguments are those of :func:`sngan_generator`.

    Example:
        >>> sum(parameter.numel() for parameter in sngan_ncp_generator().parameters())
        4375811
    """
    return ImageGenerator(_nested(size, channels, width, latent), latent=latent)


def sngan_prodpoly_generator(
    *, size: int = 32, channels: int = 3, width: int = 256, latent: int = 128
) -> ImageGenerator:
    """A product of two polynomials, of vectors and of maps; the arguments are those of :func:`sngan_generator`.

    Example:
        >>> model = sngan_prodpoly_generator()
        >>> first, second = model.network
        >>> first.order, second.order
        (2, 4)
    """
    gate, body = nn.Linear(latent, latent, bias=False), nn.Linear(latent, latent)  # A, S and b
    for layer in (gate, body):
        draw_weight(layer, 1.0)
    nn.init.zeros_(body.bias)
    first = Polynomial(nn.Identity(), [Step(gate, body, norm=Scale(), carry={"state": nn.Identity()})])
    return ImageGenerator(nn.Sequential(first, _nested(size, channels, width, latent)), latent=latent)


def _nested(size: int, channels: int, width: int, latent: int) -> Polynomial:
    start, blocks, head = _parts(size, channels, width, latent)
    gates = [to_map(latent, width, variance=_GATE_VARIANCE, constant=1.0) for _ in blocks]
    return Polynomial(start, map(Step, gates, blocks), head)


def _parts(size: int, channels: int, width: int, latent: int) -> tuple[nn.Module, list[UpBlock], nn.Module]:
    doublings = check_image(size, channels)
    # Xavier's variance, as for all layers here
    start = to_map(latent, width, 4, variance=2 * latent / (latent + 16 * width), constant=0.0)
    head = nn.Sequential(nn.BatchNorm2d(width), relu(), _xavier(nn.Conv2d(width, channels, 3, padding=1)))
    return start, [UpBlock(width) for _ in range(doublings)], head


class SNGANDiscriminator(nn.Module):
    """One number for each image: four residual blocks with spectral norm, the sum over the map, a linear layer.

    The first two blocks halve height and width.

    Args:
        channels: Channels of the images, which may have any size.
        width: Channels of all maps.

    Example:
        >>> sum(parameter.numel() for parameter in SNGANDiscriminator().parameters())
        1053824
    """

    def __init__(self, *, channels: int = 3, width: int = 128) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            _Block(channels, width, first=True, halve=True),
            _Block(width, width, halve=True),
            _Block(width, width),
            _Block(width, width),
        )
        self.relu = relu()
        self.head = spectral_norm(_xavier(nn.Linear(width, 1, bias=False)))

    def forward(self, images: Tensor) -> Tensor:
        features = self.relu(self.blocks(images)).sum(dim=(2, 3))
        return self.head(features).squeeze(1)


class _Block(nn.Module):
    """A residual block of the discriminator; the first has no activation before its convolutions."""

    def __init__(self, in_channels: int, width: int, *, first: bool = False, halve: bool = False) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            *([] if first else [nn.ReLU()]),  # not in place: the shortcut reads the input too
            _spectral(in_channels, width, 3),
            relu(),
            _spectral(width, width, 3),
        )
        project = halve or in_channels != width
        self.shortcut = _spectral(in_channels, width, 1) if project else nn.Identity()
        self.pool = nn.AvgPool2d(2) if halve else nn.Identity()
        self.pool_first = first

    def forward(self, x: Tensor) -> Tensor:
        # pooling and a 1x1 convolution commute: images have few channels, so it is cheaper to pool them first
        shortcut = self.shortcut(self.pool(x)) if self.pool_first else self.pool(self.shortcut(x))
        return self.pool(self.branch(x)) + shortcut


def _spectral(in_channels: int, out_channels: int, size: int) -> nn.Module:
    gain = 2**0.5 if size == 3 else 1.0
    return spectral_norm(_xavier(nn.Conv2d(in_channels, out_channels, size, padding=size // 2), gain))


def _xavier(layer: nn.Module, gain: float = 1.0) -> nn.Module:
    nn.init.xavier_uniform_(layer.weight, gain)  # type: ignore[arg-type]
    if isinstance(layer.bias, Tensor):
        nn.init.zeros_(layer.bias)
    return layer


_TOY = {"size": 16, "width": 4, "latent": 6}
for _name, _build, _summary in (
    ("sngan_generator", sngan_generator, "SNGAN's generator for CIFAR-10, the baseline"),
    ("sngan_ncp_generator", sngan_ncp_generator, "SNGAN's generator as a polynomial, each residual block one order"),
    ("sngan_prodpoly_generator", sngan_prodpoly_generator, "SNGAN's generator as a product of polynomials"),
):
    register(_name, _build, summary=_summary, input_shape=(128,), toy=_TOY, task="generation")
sngan_discriminator = SNGANDiscriminator
register(
    "sngan_discriminator",
    sngan_discriminator,
    summary="SNGAN's discriminator: residual blocks with spectral norm",
    input_shape=(3, 32, 32),
    toy={"width": 4},
    task="discrimination",
)
