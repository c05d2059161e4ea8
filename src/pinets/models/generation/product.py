r"""The published generator of Fashion-MNIST without activations: a product of four polynomials of the noise.

1. order 1: :math:`z_1 = W z`
2. order 3: CCP, its three factors alone: :math:`z_2 = u_1 * (1 + u_2) * (1 + u_3)` with :math:`u_i = U_i z_1`
3. order 9: NCP, :math:`h \leftarrow (A_n z_2) * \mathrm{deconv}_n(\mathrm{BN}(h))` from :math:`h = z_2`, a map of 1x1
4. order 2: :math:`h * \mathrm{conv}(h)`, and a transposed convolution to the image

The channels, the sizes of the maps and the number of parameters, 5,015,425, are the published ones. Which of the models
the second is was not published; it is CCP here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pinets.layers.initialization import draw_weight
from pinets.models.generation.activation_free import OUTPUT_VARIANCE
from pinets.models.generation.generator import ImageGenerator, check_image, to_map
from pinets.models.registry import register
from pinets.polynomial import Polynomial, Step

__all__ = ["prodpoly_generator"]


def prodpoly_generator(
    *,
    size: int = 32,
    channels: int = 1,
    width: int = 64,
    latent: int = 128,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ImageGenerator:
    """A generator without activations that is a product of polynomials.

    Args:
        size: Height and width of the images, a power of two.
        channels: Of the images.
        width: Channels of the last state; those before have two and four times as many.
        latent: Size of the noise.
        device: Where the parameters are made.
        dtype: Type of the parameters.

    Example:
        >>> sum(parameter.numel() for parameter in prodpoly_generator(device="meta").parameters())
        5015425
    """
    factory: dict[str, Any] = {"device": device, "dtype": dtype}
    doublings = check_image(size, channels, smallest=16)
    first = nn.Linear(latent, 2 * width, **factory)
    draw_weight(first, 1.0)
    network = nn.Sequential(
        first, _coupled(2 * width, factory), _nested(width, doublings, factory), _square(width, channels, factory)
    )
    return ImageGenerator(network, latent=latent)


def _coupled(features: int, factory: dict[str, Any], order: int = 3) -> Polynomial:
    """CCP without a head; its output starts around 1, which gives the gates made of it a constant part."""
    start, *gates = (nn.Linear(features, features, **factory) for _ in range(order))
    for layer in (start, *gates):
        draw_weight(layer, 0.25)
        nn.init.constant_(layer.bias, 1.0 if layer is start else 0.0)
    return Polynomial(start, [Step(gate, carry={"state": nn.Identity()}) for gate in gates])


def _nested(width: int, doublings: int, factory: dict[str, Any]) -> Polynomial:
    """NCP from a map of 1x1 to one of the image's size; each size from 4 on has two steps, but for 16."""
    latent = 2 * width
    outs = [(2 * width, 2), (2 * width, 4), (4 * width, 4)]
    for n in range(1, doublings):
        outs += [(4 * width, 4 << n)] + ([(4 * width, 4 << n)] if n == 1 else [])
    outs += [(4 * width, 4 << doublings), (width, 4 << doublings)]
    steps, before, side = [], latent, 1
    for after, new_side in outs:
        kernel = {"kernel_size": 4, "stride": 2} if new_side > side else {"kernel_size": 3, "stride": 1}
        deconvolution = nn.ConvTranspose2d(before, after, padding=1, **kernel, **factory)  # type: ignore[arg-type]
        gate = to_map(latent, after, variance=0.5, **factory)  # of an input whose mean square is about two
        draw_weight(deconvolution, 1.0)
        steps.append(Step(gate, nn.Sequential(nn.BatchNorm2d(before, **factory), deconvolution)))
        before, side = after, new_side
    return Polynomial(nn.Unflatten(1, (latent, 1, 1)), steps)


def _square(width: int, channels: int, factory: dict[str, Any]) -> Polynomial:
    """Order 2: the map times a convolution of it, and from there the image."""
    gate = nn.Conv2d(width, width, 3, padding=1, bias=False, **factory)
    head = nn.ConvTranspose2d(width, channels, 3, padding=1, **factory)
    draw_weight(gate, 1.0)
    draw_weight(head, OUTPUT_VARIANCE)
    return Polynomial(nn.Identity(), [Step(gate)], head)


register(
    "prodpoly_generator",
    prodpoly_generator,
    summary="images from noise by a product of polynomials, without activations, as published",
    input_shape=(128,),
    toy={"size": 16, "width": 4, "latent": 6},
    task="generation",
)
