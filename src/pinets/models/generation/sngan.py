r"""SNGAN for images of 32x32: residual generator and discriminator, and the generator as a polynomial.

The baseline's generator is :math:`h_n = \mathrm{block}_n(h_{n-1})`. As an NCP each residual block is one order,

.. math:: h_n = (A_n z + a_n) * \mathrm{block}_n(h_{n-1}),

with a thin layer of the noise, one number for each channel, as the gate. Its bias starts at 1, and the paper's bias
vector is that of the block's last convolution. ProdPoly puts another NCP, of vectors, before it. The activations of the
blocks stay. How the polynomials look in detail was never published; this is our choice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from pinets.layers import NCP
from pinets.models.choices import relu
from pinets.models.generation.generator import ImageGenerator, check_image, to_map
from pinets.models.registry import register
from pinets.polynomial import Polynomial, Step

__all__ = [
    "SNGANDiscriminator",
    "UpBlock",
    "sngan_discriminator",
    "sngan_generator",
    "sngan_ncp_generator",
    "sngan_prodpoly_generator",
]

_PRODPOLY_ORDER = 2  # of the polynomial of vectors that ProdPoly has before the other
_GATE_VARIANCE = 0.01  # of a gate around its bias, 1: it starts near the baseline


class UpBlock(nn.Module):
    """Twice the height and width: the shortcut of a 1x1 convolution, and BN, ReLU, up, 3x3, BN, ReLU, 3x3."""

    def __init__(self, channels: int, factory: dict[str, Any]) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(channels, **factory),
            relu(),
            nn.Upsample(scale_factor=2),
            _xavier(nn.Conv2d(channels, channels, 3, padding=1, **factory), gain=2**0.5),
            nn.BatchNorm2d(channels, **factory),
            relu(),
            _xavier(nn.Conv2d(channels, channels, 3, padding=1, **factory), gain=2**0.5),
        )
        # the 1x1 convolution of each pixel is the same before or after it is repeated, and cheaper before
        self.shortcut = nn.Sequential(_xavier(nn.Conv2d(channels, channels, 1, **factory)), nn.Upsample(scale_factor=2))

    def forward(self, x: Tensor) -> Tensor:
        return self.branch(x) + self.shortcut(x)


def sngan_generator(
    *,
    size: int = 32,
    channels: int = 3,
    width: int = 256,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """The baseline: residual blocks from 4x4 on, each doubling the size.

    Args:
        size: Height and width of the images, a power of two.
        channels: Of the images.
        width: Channels of all maps.
        latent: Size of the noise.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> sum(parameter.numel() for parameter in sngan_generator(device="meta").parameters())
        4276739
    """
    start, blocks, head = _parts(size, channels, width, latent, {"device": device, "dtype": dtype})
    return ImageGenerator(nn.Sequential(start, *blocks, head), latent=latent)


def sngan_ncp_generator(
    *,
    size: int = 32,
    channels: int = 3,
    width: int = 256,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """The baseline as an NCP, each block one order; the arguments are those of :func:`sngan_generator`.

    Example:
        >>> sum(parameter.numel() for parameter in sngan_ncp_generator(device="meta").parameters())
        4375811
    """
    return ImageGenerator(_nested(size, channels, width, latent, {"device": device, "dtype": dtype}), latent=latent)


def sngan_prodpoly_generator(
    *,
    size: int = 32,
    channels: int = 3,
    width: int = 256,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """A product of two NCPs, of vectors and of maps; the arguments are those of :func:`sngan_generator`."""
    first = NCP(latent, latent, rank=latent, order=_PRODPOLY_ORDER, device=device, dtype=dtype)
    second = _nested(size, channels, width, latent, {"device": device, "dtype": dtype})
    return ImageGenerator(nn.Sequential(first, second), latent=latent)


def _nested(size: int, channels: int, width: int, latent: int, factory: dict[str, Any]) -> Polynomial:
    start, blocks, head = _parts(size, channels, width, latent, factory)
    return Polynomial(start, [Step(_gate(latent, width, factory), block) for block in blocks], head)


def _gate(latent: int, width: int, factory: dict[str, Any]) -> nn.Sequential:
    return to_map(latent, width, variance=_GATE_VARIANCE, constant=1.0, **factory)


def _parts(
    size: int, channels: int, width: int, latent: int, factory: dict[str, Any]
) -> tuple[nn.Module, list[UpBlock], nn.Module]:
    doublings = check_image(size, channels)
    # Xavier's variance, as of all layers here
    start = to_map(latent, width, 4, variance=2 * latent / (latent + 16 * width), constant=0.0, **factory)
    head = nn.Sequential(
        nn.BatchNorm2d(width, **factory), relu(), _xavier(nn.Conv2d(width, channels, 3, padding=1, **factory))
    )
    return start, [UpBlock(width, factory) for _ in range(doublings)], head


class SNGANDiscriminator(nn.Module):
    """One number for each image: four residual blocks with spectral norm, the sum over the map, a linear layer.

    The first two blocks halve height and width.

    Args:
        channels: Of the images.
        width: Channels of all maps.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.blocks = nn.Sequential(
            _Block(channels, width, first=True, halve=True, factory=factory),
            _Block(width, width, halve=True, factory=factory),
            _Block(width, width, factory=factory),
            _Block(width, width, factory=factory),
        )
        self.relu = relu()
        self.head = spectral_norm(_xavier(nn.Linear(width, 1, bias=False, **factory)))

    def forward(self, images: Tensor) -> Tensor:
        features = self.relu(self.blocks(images)).sum(dim=(2, 3))
        return self.head(features).squeeze(1)


class _Block(nn.Module):
    """A residual block of the discriminator; the first has no activation before its convolutions."""

    def __init__(
        self, in_channels: int, width: int, *, first: bool = False, halve: bool = False, factory: dict[str, Any]
    ) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            *([] if first else [nn.ReLU()]),  # not in place: the shortcut needs what comes in
            _spectral(in_channels, width, 3, factory),
            relu(),
            _spectral(width, width, 3, factory),
        )
        project = halve or in_channels != width
        self.shortcut = _spectral(in_channels, width, 1, factory) if project else nn.Identity()
        self.pool = nn.AvgPool2d(2) if halve else nn.Identity()
        self.pool_first = first

    def forward(self, x: Tensor) -> Tensor:
        # pooling and a 1x1 convolution commute: for the images themselves it is cheaper to pool first
        shortcut = self.shortcut(self.pool(x)) if self.pool_first else self.pool(self.shortcut(x))
        return self.pool(self.branch(x)) + shortcut


def sngan_discriminator(
    *,
    channels: int = 3,
    width: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> SNGANDiscriminator:
    """SNGAN's discriminator, an :class:`SNGANDiscriminator`, for images of any size.

    Example:
        >>> sum(parameter.numel() for parameter in sngan_discriminator(device="meta").parameters())
        1053824
    """
    return SNGANDiscriminator(channels, width, device=device, dtype=dtype)


def _spectral(in_channels: int, out_channels: int, size: int, factory: dict[str, Any]) -> nn.Module:
    gain = 2**0.5 if size == 3 else 1.0
    convolution = nn.Conv2d(in_channels, out_channels, size, padding=size // 2, **factory)
    return spectral_norm(_xavier(convolution, gain))


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
register(
    "sngan_discriminator",
    sngan_discriminator,
    summary="SNGAN's discriminator: residual blocks with spectral norm",
    input_shape=(3, 32, 32),
    toy={"width": 4},
    task="discrimination",
)
