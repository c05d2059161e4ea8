r"""StyleGAN, as what it is: a polynomial (NCP) of the styles whose body is the convolution.

The synthesis network is :math:`h_k = (A_k w) * n(c(h_{k-1})) + B_k w` from a learnt constant, with :math:`c` the
convolution and :math:`n` noise, activation and instance norm. The styles come from the noise by a mapping network:
eight linear layers with activations; or, in the ProdPoly version, an NCP, which makes the generator a product of two
polynomials. Its order is 4, whose eight matrices have the size of the eight layers; which one the paper took is not
published. Nothing else differs.

Channels, initialisation, learning rates, noise, mixing and truncation are those of the StyleGAN paper. Networks have
their full size from the start: they do not grow while they are trained, as the original's did.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from pinets.layers import NCP
from pinets.models.generation.equalize import equalize
from pinets.models.generation.generator import check_image, require_noise
from pinets.models.generation.style_layers import (
    AdaIN,
    Blur,
    Constant,
    MinibatchDeviation,
    NoiseInput,
    PixelNorm,
    Row,
    convolution,
    linear,
)
from pinets.models.registry import register
from pinets.polynomial import Polynomial

__all__ = [
    "StyleGenerator",
    "stylegan_discriminator",
    "stylegan_generator",
    "stylegan_prodpoly_generator",
]

_LAYERS = 8  # of the mapping network
_MAPPING_ORDER = 4  # of the mapping network that is a polynomial
_MAPPING_MULTIPLIER = 0.01  # of its learning rate
_MIXED = 0.9  # share of the images that are made from two styles, in training
_MEAN_KEEPS = 0.995  # how much of the running mean of the styles a step keeps


class StyleGenerator(nn.Module):
    """Images from styles, and styles from noise.

    Args:
        mapping: From noise (N, latent) to styles of the same shape.
        synthesis: From a style for each of its steps, (N, steps, latent), to images.
        latent: The size of noise and styles.
        mixed: The share of the images that change, from some step on, to the style of other noise while training.
        device: Where the running mean of the styles is kept.
        dtype: Its type.
    """

    mean_style: Tensor

    def __init__(
        self,
        mapping: nn.Module,
        synthesis: Polynomial,
        *,
        latent: int,
        mixed: float = _MIXED,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.latent = latent
        self.mapping = mapping
        self.synthesis = synthesis
        self.mixed = mixed
        self.steps = len(synthesis.steps)
        self.register_buffer("mean_style", torch.zeros(latent, device=device, dtype=dtype))

    def forward(self, z: Tensor) -> Tensor:
        require_noise(z, self.latent)
        style = self.mapping(z)
        styles = style[:, None].expand(-1, self.steps, -1)
        if self.training:
            self.mean_style.lerp_(style.detach().mean(dim=0).to(self.mean_style.dtype), 1 - _MEAN_KEEPS)
            styles = self._mix(styles, self.mapping(torch.randn_like(z)))
        return self.synthesis(styles)

    def truncated(self, z: Tensor, amount: float, steps: int | None = None) -> Tensor:
        """Images nearer to the average: styles are drawn towards their mean, all the way with an amount of 0.

        Args:
            z: The noise.
            amount: What is left of the distance to the mean.
            steps: Only the first so many steps; all if left out.
        """
        require_noise(z, self.latent)
        style = self.mapping(z)[:, None].expand(-1, self.steps, -1)
        near = self.mean_style + amount * (style - self.mean_style)
        first = torch.arange(self.steps, device=z.device) < (self.steps if steps is None else steps)
        return self.synthesis(torch.where(first[:, None], near, style))

    def _mix(self, styles: Tensor, other: Tensor) -> Tensor:
        """Change to the other style from a step on that is drawn for every image."""
        count, steps, _ = styles.shape
        change = 1 + (torch.rand(count, 1, device=styles.device) * (steps - 1)).long()
        mixed = torch.rand(count, 1, device=styles.device) < self.mixed
        later = (torch.arange(steps, device=styles.device) >= change) & mixed
        return torch.where(later[..., None], other[:, None], styles)


def stylegan_generator(
    *,
    size: int = 256,
    channels: int = 3,
    base: int = 16384,
    most: int = 512,
    latent: int = 512,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> StyleGenerator:
    """StyleGAN's generator.

    Args:
        size: Height and width of the images, a power of two from 8 to 1024.
        channels: Of the images.
        base: A map of height s has ``base / s`` channels.
        most: The most channels that a map has, whatever ``base`` says.
        latent: Size of the noise and the styles.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """
    factory: dict[str, Any] = {"device": device, "dtype": dtype}
    layers: list[nn.Module] = [PixelNorm()]
    for _ in range(_LAYERS):
        layers += [linear(latent, latent, factory, multiplier=_MAPPING_MULTIPLIER), nn.LeakyReLU(0.2, inplace=True)]
    return StyleGenerator(
        nn.Sequential(*layers), _synthesis(size, channels, base, most, latent, factory), latent=latent, **factory
    )


def stylegan_prodpoly_generator(
    *,
    size: int = 256,
    channels: int = 3,
    base: int = 16384,
    most: int = 512,
    latent: int = 512,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> StyleGenerator:
    """StyleGAN with a polynomial as its mapping network; the arguments are those of :func:`stylegan_generator`."""
    factory: dict[str, Any] = {"device": device, "dtype": dtype}
    polynomial = NCP(latent, latent, rank=latent, order=_MAPPING_ORDER, **factory)
    for layer in [*polynomial.modules()]:
        if isinstance(layer, nn.Linear):
            equalize(layer, gain=1.0, multiplier=_MAPPING_MULTIPLIER)
    return StyleGenerator(
        nn.Sequential(PixelNorm(), polynomial),
        _synthesis(size, channels, base, most, latent, factory),
        latent=latent,
        **factory,
    )


def stylegan_discriminator(
    *,
    size: int = 256,
    channels: int = 3,
    base: int = 16384,
    most: int = 512,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """StyleGAN's discriminator; the arguments are those of :func:`stylegan_generator`."""
    factory: dict[str, Any] = {"device": device, "dtype": dtype}
    widths = _widths(size, channels, base, most)[::-1]
    activate = partial(nn.LeakyReLU, 0.2, inplace=True)
    layers: list[nn.Module] = [convolution(channels, widths[0], 1, factory, bias=True), activate()]
    for before, after in pairwise(widths):
        layers += [convolution(before, before, 3, factory, bias=True), activate(), Blur(factory)]
        layers += [convolution(before, after, 3, factory, bias=True), nn.AvgPool2d(2), activate()]
    last = widths[-1]
    layers += [MinibatchDeviation(), convolution(last + 1, last, 3, factory, bias=True), activate(), nn.Flatten()]
    layers += [linear(16 * last, last, factory), activate(), linear(last, 1, factory, gain=1.0), nn.Flatten(0)]
    return nn.Sequential(*layers)


def _synthesis(size: int, channels: int, base: int, most: int, latent: int, factory: dict[str, Any]) -> Polynomial:
    """Two steps for each size; the first of all has no convolution."""
    widths = _widths(size, channels, base, most)
    first = widths[0]
    bodies: list[list[nn.Module]] = [[], [convolution(first, first, 3, factory)]]
    outs = [first, first]
    for before, after in pairwise(widths):
        bodies += [[nn.Upsample(scale_factor=2), convolution(before, after, 3, factory), Blur(factory)]]
        bodies += [[convolution(after, after, 3, factory)]]
        outs += [after, after]
    steps = [_styled(row, body, out, latent, factory) for row, (body, out) in enumerate(zip(bodies, outs, strict=True))]
    return Polynomial(
        Constant(first, 4, factory), steps, head=convolution(widths[-1], channels, 1, factory, gain=1.0, bias=True)
    )


def _styled(row: int, convolve: list[nn.Module], width: int, latent: int, factory: dict[str, Any]) -> AdaIN:
    def style(bias: float) -> nn.Sequential:
        return nn.Sequential(
            Row(row), linear(latent, width, factory, gain=1.0, bias=bias), nn.Unflatten(1, (width, 1, 1))
        )

    body = nn.Sequential(
        *convolve, NoiseInput(width, factory), nn.LeakyReLU(0.2), nn.InstanceNorm2d(width, eps=1e-8, **factory)
    )
    return AdaIN(gate=style(bias=1.0), shift=style(bias=0.0), body=body)


def _widths(size: int, channels: int, base: int, most: int) -> list[int]:
    """The channels of the maps of height 4, 8, ..., size.

    >>> _widths(1024, 3, 16384, 512)
    [512, 512, 512, 512, 256, 128, 64, 32, 16]
    """
    doublings = check_image(size, channels)
    return [max(1, min(most, base // (4 << n))) for n in range(doublings + 1)]


_SIZES = {"size": 16, "base": 64, "most": 8}
register(
    "stylegan_generator",
    stylegan_generator,
    summary="StyleGAN's generator, the baseline",
    input_shape=(512,),
    toy={**_SIZES, "latent": 8},
    task="generation",
)
register(
    "stylegan_prodpoly_generator",
    stylegan_prodpoly_generator,
    summary="StyleGAN with a polynomial as its mapping network: a product of polynomials",
    input_shape=(512,),
    toy={**_SIZES, "latent": 8},
    task="generation",
)
register(
    "stylegan_discriminator",
    stylegan_discriminator,
    summary="StyleGAN's discriminator",
    input_shape=(3, 256, 256),
    toy=_SIZES,
    task="discrimination",
)
