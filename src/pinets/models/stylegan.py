r"""StyleGAN as a polynomial (NCP) of the styles whose body is the convolution.

The synthesis network is :math:`h_k = (A_k w) * n(c(h_{k-1})) + B_k w` from a learnt constant, with :math:`c` the
convolution and :math:`n` noise, activation and instance norm. A mapping network makes the styles from noise: eight
linear layers with activations or, in the ProdPoly version, an NCP, which makes the generator a product of two
polynomials. The NCP has order 4, whose eight matrices have the size of the eight layers; the paper does not give its
order. Nothing else differs.

Channels, initialisation, learning rates, noise, mixing and truncation are those of the StyleGAN paper. Networks have
their full size from the start: they do not grow during training, as the original's did.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from pinets.layers import NCP
from pinets.models.generator import check_image, require_noise
from pinets.models.registry import register
from pinets.polynomial import Polynomial, Step

__all__ = [
    "AdaIN",
    "Blur",
    "MinibatchDeviation",
    "StyleGenerator",
    "equalize",
    "stylegan_discriminator",
    "stylegan_generator",
    "stylegan_prodpoly_generator",
]

_LAYERS = 8  # of the mapping network
_MAPPING_ORDER = 4  # of the mapping network that is a polynomial
_MAPPING_MULTIPLIER = 0.01  # on the learning rate of the mapping network
_MIXED = 0.9  # share of the images made from two styles in training
_MEAN_KEEPS = 0.995  # decay of the running mean of the styles


class Scaled(nn.Module):
    """A parametrisation: the weight is a stored tensor times a constant."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, stored: Tensor) -> Tensor:
        return self.scale * stored

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight / self.scale

    def extra_repr(self) -> str:
        return f"{self.scale:.4g}"


def equalize(layer: nn.Linear | nn.Conv2d, *, gain: float = math.sqrt(2), multiplier: float = 1.0) -> nn.Module:
    r"""The equalised learning rate: store the weight divided by
    :math:`c = \mathrm{gain} \cdot \mathrm{multiplier} / \sqrt{\mathrm{fan\ in}}`.

    An optimiser with steps of one size, such as Adam, then changes the weights of all layers equally fast relative to
    their size, more slowly with a multiplier below 1. The function of the layer stays as it is.

    Example:
        >>> layer, x = nn.Linear(64, 8), torch.randn(2, 64)
        >>> before = layer(x)
        >>> bool(torch.allclose(equalize(layer)(x), before, atol=1e-6))
        True
    """
    scale = gain * multiplier / math.sqrt(layer.weight[0].numel())
    parametrize.register_parametrization(layer, "weight", Scaled(scale))
    if layer.bias is not None and multiplier != 1:
        parametrize.register_parametrization(layer, "bias", Scaled(multiplier))
    return layer


def _convolution(before: int, after: int, size: int, *, gain: float = math.sqrt(2), bias: bool = False) -> nn.Module:
    """A convolution that keeps height and width, with equalised learning rate."""
    return _drawn(nn.Conv2d(before, after, size, padding=size // 2, bias=bias), gain, 1.0, 0.0)


def _linear(
    before: int, after: int, *, gain: float = math.sqrt(2), multiplier: float = 1.0, bias: float = 0.0
) -> nn.Module:
    """A linear layer with equalised learning rate and the given initial bias."""
    return _drawn(nn.Linear(before, after), gain, multiplier, bias)


def _drawn(layer: nn.Linear | nn.Conv2d, gain: float, multiplier: float, bias: float) -> nn.Module:
    nn.init.normal_(layer.weight, std=gain / math.sqrt(layer.weight[0].numel()))
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)
    return equalize(layer, gain=gain, multiplier=multiplier)


class AdaIN(Step):
    r"""A step of NCP whose body ends in an instance norm: :math:`h_k = (A_k w) * n(c(h_{k-1})) + B_k w`.

    The style's shift :math:`B_k w` is of first order in :math:`w`, beside the product.

    Args:
        gate: The scale, :math:`A_k w`.
        shift: :math:`B_k w`.
        body: Convolution, noise, activation and normalisation.
    """

    def __init__(self, gate: nn.Module, shift: nn.Module, body: nn.Module) -> None:
        super().__init__(gate, body)
        self.shift = shift

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return super().forward(z, x) + self.shift(z)


class Row(nn.Module):
    """Select one of the styles, (N, steps, latent): every step has its own."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row

    def forward(self, styles: Tensor) -> Tensor:
        return styles[:, self.row]

    def extra_repr(self) -> str:
        return str(self.row)


class Constant(nn.Module):
    """A learnt map, the start of the synthesis; the input only gives the batch size."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.ones(channels, size, size))

    def forward(self, styles: Tensor) -> Tensor:
        return self.value.expand(styles.shape[0], -1, -1, -1)


class NoiseInput(nn.Module):
    """Add fresh noise, one map for all channels times a learnt strength per channel; and a bias."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.zeros(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x[:, :1])
        return x + self.strength * noise + self.bias


class PixelNorm(nn.Module):
    """Divide by the root mean square over the features."""

    def forward(self, z: Tensor) -> Tensor:
        return z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()


class Blur(nn.Module):
    """The binomial filter 1, 2, 1 along height and width, of every channel by itself."""

    def forward(self, x: Tensor) -> Tensor:
        channels = x.shape[1]
        # made here: a buffer that no file holds would stay empty in a network that was built on the meta device
        row = F.pad(x.new_full((1,), 2 / 4), (1, 1), value=1 / 4)
        return F.conv2d(x, (row[:, None] * row).expand(channels, 1, 3, 3), padding=1, groups=channels)


class MinibatchDeviation(nn.Module):
    """Append a map with the deviation within a group of images, which reveals a generator without variety.

    Args:
        group: Number of consecutive images in a group.
    """

    def __init__(self, group: int = 4) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        count, _, height, width = x.shape
        # the greatest common divisor, in a form that torch.export traces for any number of groups
        group = next(size for size in range(self.group, 0, -1) if self.group % size == 0 and count % size == 0)
        groups = x.reshape(count // group, group, -1)
        deviation = (groups.var(dim=1, correction=0) + 1e-8).sqrt().mean(dim=1)
        appended = deviation.repeat_interleave(group)[:, None, None, None].expand(-1, 1, height, width)
        return torch.cat([x, appended], dim=1)


class StyleGenerator(nn.Module):
    """Images from styles, and styles from noise.

    Args:
        mapping: Maps noise, (N, latent), to styles of the same shape.
        synthesis: Maps a style for each of its steps, (N, steps, latent), to images.
        latent: The size of noise and styles.
    """

    mean_style: Tensor

    def __init__(self, mapping: nn.Module, synthesis: Polynomial, *, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.mapping = mapping
        self.synthesis = synthesis
        self.steps = len(synthesis.steps)
        self.register_buffer("mean_style", torch.zeros(latent))

    def forward(self, z: Tensor) -> Tensor:
        require_noise(z, self.latent)
        style = self.mapping(z)
        styles = style[:, None].expand(-1, self.steps, -1)
        if self.training:
            self.mean_style.lerp_(style.detach().mean(dim=0).to(self.mean_style.dtype), 1 - _MEAN_KEEPS)
            styles = self._mix(styles, self.mapping(torch.randn_like(z)))
        return self.synthesis(styles)

    def truncated(self, z: Tensor, amount: float, steps: int | None = None) -> Tensor:
        """Images nearer to the average: styles move towards their mean.

        Args:
            z: The noise.
            amount: The share of the distance to the mean that is left; 0 for the mean itself.
            steps: Move the styles of the first steps only; all by default.
        """
        require_noise(z, self.latent)
        style = self.mapping(z)[:, None].expand(-1, self.steps, -1)
        near = torch.lerp(self.mean_style, style, amount)
        first = torch.arange(self.steps, device=z.device) < (self.steps if steps is None else steps)
        return self.synthesis(torch.where(first[:, None], near, style))

    def _mix(self, styles: Tensor, other: Tensor) -> Tensor:
        """In most images, switch to the style of other noise from a step on that is drawn for each of them."""
        count, steps, _ = styles.shape
        change = 1 + (torch.rand(count, 1, device=styles.device) * (steps - 1)).long()
        mixed = torch.rand(count, 1, device=styles.device) < _MIXED
        later = (torch.arange(steps, device=styles.device) >= change) & mixed
        return torch.where(later[..., None], other[:, None], styles)


def stylegan_generator(
    *, size: int = 256, channels: int = 3, base: int = 16384, most: int = 512, latent: int = 512
) -> StyleGenerator:
    """StyleGAN's generator.

    Args:
        size: Height and width of the images, a power of two from 8 to 1024.
        channels: Channels of the images.
        base: A map of height s has ``base / s`` channels.
        most: The largest number of channels of a map.
        latent: Size of the noise and the styles.
    """
    layers: list[nn.Module] = [PixelNorm()]
    for _ in range(_LAYERS):
        layers += [_linear(latent, latent, multiplier=_MAPPING_MULTIPLIER), nn.LeakyReLU(0.2, inplace=True)]
    return StyleGenerator(nn.Sequential(*layers), _synthesis(size, channels, base, most, latent), latent=latent)


def stylegan_prodpoly_generator(
    *, size: int = 256, channels: int = 3, base: int = 16384, most: int = 512, latent: int = 512
) -> StyleGenerator:
    """StyleGAN with a polynomial as its mapping network; the arguments are those of :func:`stylegan_generator`."""
    polynomial = NCP(latent, latent, rank=latent, order=_MAPPING_ORDER)
    for layer in [*polynomial.modules()]:
        if isinstance(layer, nn.Linear):
            equalize(layer, gain=1.0, multiplier=_MAPPING_MULTIPLIER)
    mapping = nn.Sequential(PixelNorm(), polynomial)
    return StyleGenerator(mapping, _synthesis(size, channels, base, most, latent), latent=latent)


def stylegan_discriminator(*, size: int = 256, channels: int = 3, base: int = 16384, most: int = 512) -> nn.Sequential:
    """StyleGAN's discriminator; the arguments are those of :func:`stylegan_generator`."""
    widths = _widths(size, channels, base, most)[::-1]
    convolve, activate = partial(_convolution, bias=True), partial(nn.LeakyReLU, 0.2, inplace=True)
    layers: list[nn.Module] = [convolve(channels, widths[0], 1), activate()]
    for before, after in pairwise(widths):
        layers += [convolve(before, before, 3), activate(), Blur()]
        layers += [convolve(before, after, 3), nn.AvgPool2d(2), activate()]
    last = widths[-1]
    layers += [MinibatchDeviation(), convolve(last + 1, last, 3), activate(), nn.Flatten()]
    layers += [_linear(16 * last, last), activate(), _linear(last, 1, gain=1.0), nn.Flatten(0)]
    return nn.Sequential(*layers)


def _synthesis(size: int, channels: int, base: int, most: int, latent: int) -> Polynomial:
    """Two steps for each size; the first of all has no convolution."""
    widths = _widths(size, channels, base, most)
    first = widths[0]
    bodies: list[list[nn.Module]] = [[], [_convolution(first, first, 3)]]
    outs = [first, first]
    for before, after in pairwise(widths):
        bodies += [[nn.Upsample(scale_factor=2), _convolution(before, after, 3), Blur()]]
        bodies += [[_convolution(after, after, 3)]]
        outs += [after, after]
    steps = [_styled(row, body, out, latent) for row, (body, out) in enumerate(zip(bodies, outs, strict=True))]
    head = _convolution(widths[-1], channels, 1, gain=1.0, bias=True)
    return Polynomial(Constant(first, 4), steps, head)


def _styled(row: int, convolve: list[nn.Module], width: int, latent: int) -> AdaIN:
    def style(bias: float) -> nn.Sequential:
        return nn.Sequential(Row(row), _linear(latent, width, gain=1.0, bias=bias), nn.Unflatten(1, (width, 1, 1)))

    body = nn.Sequential(*convolve, NoiseInput(width), nn.LeakyReLU(0.2), nn.InstanceNorm2d(width, eps=1e-8))
    return AdaIN(gate=style(bias=1.0), shift=style(bias=0.0), body=body)


def _widths(size: int, channels: int, base: int, most: int) -> list[int]:
    """The channels of the maps of height 4, 8, ..., size.

    >>> _widths(1024, 3, 16384, 512)
    [512, 512, 512, 512, 256, 128, 64, 32, 16]
    """
    doublings = check_image(size, channels)
    return [max(1, min(most, base // (4 << n))) for n in range(doublings + 1)]


_SIZES = {"size": 16, "base": 64, "most": 8}
_register = partial(register, input_shape=(512,), task="generation", toy={**_SIZES, "latent": 8})
_register("stylegan_generator", stylegan_generator, summary="StyleGAN's generator, the baseline")
_register(
    "stylegan_prodpoly_generator",
    stylegan_prodpoly_generator,
    summary="StyleGAN with a polynomial as its mapping network: a product of polynomials",
)
register(
    "stylegan_discriminator",
    stylegan_discriminator,
    summary="StyleGAN's discriminator",
    input_shape=(3, 256, 256),
    toy=_SIZES,
    task="discrimination",
)
