"""Generators of images and their discriminators."""

from pinets.models.generation.activation_free import (
    ccp_generator,
    linear_generator,
    ncp_generator,
    ncp_skip_generator,
)
from pinets.models.generation.generator import ImageGenerator
from pinets.models.generation.product import prodpoly_generator
from pinets.models.generation.sngan import (
    SNGANDiscriminator,
    UpBlock,
    sngan_discriminator,
    sngan_generator,
    sngan_ncp_generator,
    sngan_prodpoly_generator,
)
from pinets.models.generation.strided import strided_discriminator
from pinets.models.generation.stylegan import (
    StyleGenerator,
    stylegan_discriminator,
    stylegan_generator,
    stylegan_prodpoly_generator,
)

__all__ = [
    "ImageGenerator",
    "SNGANDiscriminator",
    "StyleGenerator",
    "UpBlock",
    "ccp_generator",
    "linear_generator",
    "ncp_generator",
    "ncp_skip_generator",
    "prodpoly_generator",
    "sngan_discriminator",
    "sngan_generator",
    "sngan_ncp_generator",
    "sngan_prodpoly_generator",
    "strided_discriminator",
    "stylegan_discriminator",
    "stylegan_generator",
    "stylegan_prodpoly_generator",
]
