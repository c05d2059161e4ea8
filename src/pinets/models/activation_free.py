r"""Generators without activations: polynomials of the noise, with a single tanh at the output; and a discriminator.

The three models of the paper, of about the same size, for images of any power of two:

- CCP: the vector recursion :math:`x_n = (U_n^T z) * x_{n-1} + x_{n-1}`. Its state is reshaped to a map of 8x8, and
  :math:`C` is a stack of transposed convolutions.
- NCP: :math:`S_n` is a convolution, a transposed one where the map grows, :math:`b_n` a map of the size of the state
  and :math:`A_n z` a map of 4x4 that is enlarged to it. :math:`A_n` has a bias of 1, so that the gates start around 1:
  products of many numbers around 0 are hardly learnt.
- NCP-Skip: the same, and :math:`V_n` is a 1x1 convolution.

Batch norm, affine at inference, normalises the state before each convolution. The paper does not give the sizes of
these three.

:func:`prodpoly_generator` is the published generator of Fashion-MNIST, a product of four polynomials:

1. order 1: :math:`z_1 = W z`
2. order 3: CCP, its three factors alone: :math:`z_2 = u_1 * (1 + u_2) * (1 + u_3)` with :math:`u_i = U_i z_1`
3. order 9: NCP, :math:`h \leftarrow (A_n z_2) * \mathrm{deconv}_n(\mathrm{BN}(h))` from :math:`h = z_2`, a map of 1x1
4. order 2: :math:`h * \mathrm{conv}(h)`, and a transposed convolution to the image

The channels, the sizes of the maps and the number of parameters, 5,015,425, are the published ones. Which of the models
the second polynomial is was not published; it is CCP here.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from pinets.layers import CCP, NCPSkip
from pinets.layers.initialization import draw_weight
from pinets.models.generator import ImageGenerator, check_image, to_map
from pinets.models.parts import Bias
from pinets.models.registry import register
from pinets.polynomial import Polynomial, Step

__all__ = [
    "ccp_generator",
    "linear_generator",
    "ncp_generator",
    "ncp_skip_generator",
    "prodpoly_generator",
    "strided_discriminator",
]

State = tuple[int, int]  # channels of a map, and its height and width
_OUTPUT_VARIANCE = 0.1  # initial variance before the tanh: within its linear part
_GATE_SIDE = 4  # height and width of a gate before it is enlarged to the size of the state
_GATE_VARIANCE = 0.5  # initial variance of a gate around 1
_CCP_SIDE = 8  # height and width of CCP's state as a map


def ncp_generator(*, size: int = 32, channels: int = 1, width: int = 64, latent: int = 128) -> ImageGenerator:
    """A generator that is an NCP of the noise.

    Args:
        size: Height and width of the images, a power of two.
        channels: Channels of the images.
        width: Channels of the state at 32x32; twice as many at half the size, at most four times as many.
        latent: Size of the noise.

    Example:
        >>> from pinets.algebra import certify
        >>> generator = ncp_generator(size=8, width=4, latent=3)
        >>> certify(generator.network, torch.randn(1, 3)).degree
        2
    """
    return ImageGenerator(_nested(size, channels, width, latent, skip=0.0), latent=latent)


def ncp_skip_generator(*, size: int = 32, channels: int = 1, width: int = 64, latent: int = 128) -> ImageGenerator:
    """A generator that is an NCP-Skip of the noise; the arguments are those of :func:`ncp_generator`."""
    return ImageGenerator(_nested(size, channels, width, latent, skip=NCPSkip.skip_ratio), latent=latent)


def ccp_generator(*, size: int = 32, channels: int = 1, width: int = 64, latent: int = 128) -> ImageGenerator:
    """A generator that is a CCP of the noise, with the arguments and the order of :func:`ncp_generator`."""
    doublings = check_image(size, channels)
    maps = max(1, 3 * width // 2)  # about the size of the other generators

    def head(
        rank: int, out: int, /, *, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> nn.Sequential:
        ups = [nn.ConvTranspose2d(maps, maps, 4, stride=2, padding=1) for _ in range(doublings - 1)]
        last = nn.Conv2d(maps, out, 3, padding=1, bias=bias)
        for up in ups:
            draw_weight(up, 1.0)
        draw_weight(last, _OUTPUT_VARIANCE)
        return nn.Sequential(nn.Unflatten(1, (maps, _CCP_SIDE, _CCP_SIDE)), *ups, last)

    polynomial = CCP(latent, channels, rank=maps * _CCP_SIDE**2, order=2 * doublings, head_op=head)
    return ImageGenerator(polynomial, latent=latent)


def linear_generator(*, size: int = 32, channels: int = 1, width: int = 64, latent: int = 128) -> ImageGenerator:
    """:func:`ncp_generator` without its products, for comparison: it is linear in the noise.

    Example:
        >>> from pinets.algebra import certify
        >>> certify(linear_generator(size=8, width=4, latent=3).network, torch.randn(1, 3)).degree
        1
    """
    nested = _nested(size, channels, width, latent, skip=0.0)
    bodies = [step.body for step in nested.steps]
    return ImageGenerator(nn.Sequential(nested.start, *bodies, nested.head), latent=latent)


def _nested(size: int, channels: int, width: int, latent: int, *, skip: float) -> Polynomial:
    """NCP; NCP-Skip if ``skip``, the variance of the carried state relative to the rest, is not 0."""
    states = _states(check_image(size, channels), width)
    start = to_map(latent, *states[0], variance=1.0)
    steps = [_step(latent, before, after, skip) for before, after in pairwise(states)]
    norm, last = nn.BatchNorm2d(states[-1][0]), nn.Conv2d(states[-1][0], channels, 3, padding=1)
    draw_weight(last, _OUTPUT_VARIANCE)
    return Polynomial(start, steps, head=nn.Sequential(norm, last))


def _step(latent: int, before: State, after: State, skip: float) -> Step:
    view = to_map(latent, after[0], _GATE_SIDE, variance=_GATE_VARIANCE, constant=1.0)
    gate = view.append(nn.Upsample(size=after[1], mode="bilinear"))
    mix = _resize(before, after, 3)
    draw_weight(mix, 1 / (1 + _GATE_VARIANCE + skip))  # the state keeps its variance
    body = nn.Sequential(nn.BatchNorm2d(before[0]), mix, Bias(after[0], after[1], after[1]))
    if not skip:
        return Step(gate, body)
    carried = _resize(before, after, 1)
    draw_weight(carried, skip / (1 + _GATE_VARIANCE + skip))
    return Step(gate, body, carry={"state": carried})


def _resize(before: State, after: State, kernel: int) -> nn.Module:
    """A convolution; a transposed one, with a kernel larger by one, where the size doubles."""
    if after[1] == before[1]:
        return nn.Conv2d(before[0], after[0], kernel, padding=kernel // 2, bias=False)
    return nn.ConvTranspose2d(before[0], after[0], kernel + 1, 2, padding=kernel // 2, bias=False)


def _states(doublings: int, width: int) -> list[State]:
    """One state at 4x4, two at each size between, and one at the last.

    >>> _states(3, 64)
    [(256, 4), (256, 8), (256, 8), (128, 16), (128, 16), (64, 32)]
    """
    sides = [4, *(4 << n for n in range(1, doublings) for _ in range(2)), 4 << doublings]
    return [(max(1, min(4 * width, 32 * width // side)), side) for side in sides]


def prodpoly_generator(*, size: int = 32, channels: int = 1, width: int = 64, latent: int = 128) -> ImageGenerator:
    """A generator without activations that is a product of polynomials.

    Args:
        size: Height and width of the images, a power of two.
        channels: Channels of the images.
        width: Channels of the last state; the states before have two and four times as many.
        latent: Size of the noise.

    Example:
        >>> sum(parameter.numel() for parameter in prodpoly_generator().parameters())
        5015425
    """
    doublings = check_image(size, channels, smallest=16)
    first = nn.Linear(latent, 2 * width)
    draw_weight(first, 1.0)
    network = nn.Sequential(first, _coupled(2 * width), _deconvolutions(width, doublings), _square(width, channels))
    return ImageGenerator(network, latent=latent)


def _coupled(features: int) -> Polynomial:
    """CCP of order 3 without a head; its output starts around 1, which gives the following gates a constant part."""
    start, *gates = (nn.Linear(features, features) for _ in range(3))
    for layer in (start, *gates):
        draw_weight(layer, 0.25)
        nn.init.constant_(layer.bias, 1.0 if layer is start else 0.0)
    return Polynomial(start, [Step(gate, carry={"state": nn.Identity()}) for gate in gates])


def _deconvolutions(width: int, doublings: int) -> Polynomial:
    """NCP from a map of 1x1 to one of the image's size; each size from 4 on has two steps, except 16."""
    latent = 2 * width
    outs = [(2 * width, 2), (2 * width, 4), (4 * width, 4)]
    for n in range(1, doublings):
        outs += [(4 * width, 4 << n)] + ([(4 * width, 4 << n)] if n == 1 else [])
    outs += [(4 * width, 4 << doublings), (width, 4 << doublings)]
    steps, before, side = [], latent, 1
    for after, new_side in outs:
        kernel, stride = (4, 2) if new_side > side else (3, 1)
        deconvolution = nn.ConvTranspose2d(before, after, kernel, stride, padding=1)
        gate = to_map(latent, after, variance=0.5)  # the mean square of its input is about two
        draw_weight(deconvolution, 1.0)
        steps.append(Step(gate, nn.Sequential(nn.BatchNorm2d(before), deconvolution)))
        before, side = after, new_side
    return Polynomial(nn.Unflatten(1, (latent, 1, 1)), steps)


def _square(width: int, channels: int) -> Polynomial:
    """Order 2: the map times a convolution of it, and a transposed convolution to the image."""
    gate = nn.Conv2d(width, width, 3, padding=1, bias=False)
    head = nn.ConvTranspose2d(width, channels, 3, padding=1)
    draw_weight(gate, 1.0)
    draw_weight(head, _OUTPUT_VARIANCE)
    return Polynomial(nn.Identity(), [Step(gate)], head)


def strided_discriminator(*, size: int = 32, channels: int = 1, width: int = 64) -> nn.Sequential:
    """One number for each image, by spectrally normalised convolutions that halve the size down to 4x4.

    It has many channels only where maps are small, and is several times faster than a residual discriminator.

    Args:
        size: Height and width of the images, a power of two.
        channels: Channels of the images.
        width: Channels of the first map; each further map has twice as many.

    Example:
        >>> strided_discriminator(width=8)(torch.randn(2, 1, 32, 32)).shape
        torch.Size([2])
    """
    layers: list[nn.Module] = []
    before = channels
    for n in range(check_image(size, channels)):
        after = width << n
        layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, padding=1)), nn.LeakyReLU(0.1, inplace=True)]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), spectral_norm(nn.Linear(before * 16, 1)), nn.Flatten(0))


_register = partial(register, input_shape=(128,), task="generation", toy={"size": 16, "width": 4, "latent": 6})
_register("ncp_generator", ncp_generator, summary="images from noise by a polynomial, NCP, without activations")
_register("ncp_skip_generator", ncp_skip_generator, summary="images from noise by a polynomial, NCP-Skip")
_register("ccp_generator", ccp_generator, summary="images from noise by a polynomial, CCP, without activations")
_register("linear_generator", linear_generator, summary="ncp_generator stripped of its products, for comparison")
_register(
    "prodpoly_generator",
    prodpoly_generator,
    summary="images from noise by a product of polynomials, without activations, as published",
)
register(
    "strided_discriminator",
    strided_discriminator,
    summary="a plain discriminator: strided convolutions with spectral norm",
    input_shape=(1, 32, 32),
    toy={"width": 4},
    task="discrimination",
)
