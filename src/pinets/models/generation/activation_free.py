r"""Generators without activations: polynomials of the noise, and a single tanh at the output.

The three models of the paper, of about the same size, for images of any power of two:

- CCP: the vector recursion :math:`x_n = (U_n^T z) * x_{n-1} + x_{n-1}` itself. Its state is looked at as a map of
  8x8, and :math:`C` is a stack of transposed convolutions.
- NCP: :math:`S_n` is a convolution, a transposed one where the map grows, :math:`b_n` a map of the size of the state
  and :math:`A_n z` a map of 4x4 that is enlarged to it. :math:`A_n` acts on the noise with a one appended, so that the
  gates start around 1: products of as many numbers around 0 as there are orders are hardly learnt.
- NCP-Skip: the same, and :math:`V_n` is a 1x1 convolution.

The state is normalised before each convolution by batch norm, which is affine once trained.

The paper does not give the sizes of these three; :mod:`pinets.models.generation.product` has the published generator.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from pinets.layers import CCP, NCPSkip
from pinets.layers.initialization import draw_weight
from pinets.models.generation.generator import ImageGenerator, check_image, to_map
from pinets.models.parts import Bias
from pinets.models.registry import register
from pinets.polynomial import Polynomial, Step

__all__ = ["ccp_generator", "linear_generator", "ncp_generator", "ncp_skip_generator"]

State = tuple[int, int]  # channels, and height and width, of a map
OUTPUT_VARIANCE = 0.1  # before the tanh, at the start: within its linear part
_GATE_SIDE = 4  # of the map that a gate is made of, before it is enlarged to the size of the state
_GATE_VARIANCE = 0.5  # of a gate around 1, at the start
_CCP_SIDE = 8  # height and width that the state of CCP is looked at with


def ncp_generator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """A generator that is an NCP of the noise.

    Args:
        size: Height and width of the images, a power of two.
        channels: Of the images.
        width: Channels of the state at 32x32; twice as many at half the size, at most four times as many.
        latent: Size of the noise.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> from pinets.algebra import certify
        >>> generator = ncp_generator(size=8, width=4, latent=3)
        >>> certify(generator.network, torch.randn(1, 3)).degree
        2
    """
    factory = {"device": device, "dtype": dtype}
    return ImageGenerator(_nested(size, channels, width, latent, 0.0, factory), latent=latent)


def ncp_skip_generator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """A generator that is an NCP-Skip of the noise; the arguments are those of :func:`ncp_generator`."""
    factory = {"device": device, "dtype": dtype}
    return ImageGenerator(_nested(size, channels, width, latent, NCPSkip.skip_ratio, factory), latent=latent)


def ccp_generator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """A generator that is a CCP of the noise; the arguments are those of :func:`ncp_generator`, whose order it has."""
    doublings = check_image(size, channels)
    maps = max(1, 3 * width // 2)  # as many as make its size that of the others

    def head(rank: int, out: int, /, *, bias: bool, **factory: Any) -> nn.Sequential:
        ups = [nn.ConvTranspose2d(maps, maps, 4, stride=2, padding=1, **factory) for _ in range(doublings - 1)]
        last = nn.Conv2d(maps, out, 3, padding=1, bias=bias, **factory)
        for up in ups:
            draw_weight(up, 1.0)
        draw_weight(last, OUTPUT_VARIANCE)
        return nn.Sequential(nn.Unflatten(1, (maps, _CCP_SIDE, _CCP_SIDE)), *ups, last)

    polynomial = CCP(
        latent,
        channels,
        rank=maps * _CCP_SIDE**2,
        order=2 * doublings,
        head_op=head,
        device=device,
        dtype=dtype,
    )
    return ImageGenerator(polynomial, latent=latent)


def linear_generator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """:func:`ncp_generator` stripped of its products, to see what they do: what is left is linear in the noise.

    Example:
        >>> from pinets.algebra import certify
        >>> certify(linear_generator(size=8, width=4, latent=3).network, torch.randn(1, 3)).degree
        1
    """
    nested = _nested(size, channels, width, latent, 0.0, {"device": device, "dtype": dtype})
    bodies = [step.body for step in nested.steps]
    return ImageGenerator(nn.Sequential(nested.start, *bodies, nested.head), latent=latent)


def _nested(size: int, channels: int, width: int, latent: int, skip: float, factory: dict[str, Any]) -> Polynomial:
    """NCP; or NCP-Skip, where ``skip``, the variance of what is carried over relative to the rest, is not 0."""
    states = _states(check_image(size, channels), width)
    start = to_map(latent, *states[0], variance=1.0, **factory)
    steps = [_step(latent, before, after, skip, factory) for before, after in pairwise(states)]
    norm, last = nn.BatchNorm2d(states[-1][0], **factory), nn.Conv2d(states[-1][0], channels, 3, padding=1, **factory)
    draw_weight(last, OUTPUT_VARIANCE)
    return Polynomial(start, steps, head=nn.Sequential(norm, last))


def _step(latent: int, before: State, after: State, skip: float, factory: dict[str, Any]) -> Step:
    view = to_map(latent, after[0], _GATE_SIDE, variance=_GATE_VARIANCE, constant=1.0, **factory)
    gate = view.append(nn.Upsample(size=after[1], mode="bilinear"))
    mix = _resize(before, after, 3, factory)
    draw_weight(mix, 1 / (1 + _GATE_VARIANCE + skip))  # the state keeps its variance
    body = nn.Sequential(nn.BatchNorm2d(before[0], **factory), mix, Bias(after[0], after[1], after[1], **factory))
    if not skip:
        return Step(gate, body)
    carried = _resize(before, after, 1, factory)
    draw_weight(carried, skip / (1 + _GATE_VARIANCE + skip))
    return Step(gate, body, carry={"state": carried})


def _resize(before: State, after: State, kernel: int, factory: dict[str, Any]) -> nn.Module:
    """A convolution; to twice the size a transposed one, with a kernel that is larger by the pixel it puts between."""
    if after[1] == before[1]:
        return nn.Conv2d(before[0], after[0], kernel, padding=kernel // 2, bias=False, **factory)
    return nn.ConvTranspose2d(before[0], after[0], kernel + 1, 2, padding=kernel // 2, bias=False, **factory)


def _states(doublings: int, width: int) -> list[State]:
    """The first state, two for each size after that, and one for the last.

    >>> _states(3, 64)
    [(256, 4), (256, 8), (256, 8), (128, 16), (128, 16), (64, 32)]
    """
    sides = [4, *(4 << n for n in range(1, doublings) for _ in range(2)), 4 << doublings]
    return [(max(1, min(4 * width, 32 * width // side)), side) for side in sides]


_register = partial(register, input_shape=(128,), task="generation", toy={"size": 16, "width": 4, "latent": 6})
_register("ncp_generator", ncp_generator, summary="images from noise by a polynomial, NCP, without activations")
_register("ncp_skip_generator", ncp_skip_generator, summary="images from noise by a polynomial, NCP-Skip")
_register("ccp_generator", ccp_generator, summary="images from noise by a polynomial, CCP, without activations")
_register("linear_generator", linear_generator, summary="ncp_generator stripped of its products, for comparison")
