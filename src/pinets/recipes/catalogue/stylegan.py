"""StyleGAN on FFHQ at 256x256: the mapping network of eight layers against one that is a polynomial."""

from __future__ import annotations

from dataclasses import replace

from pinets.losses import NonSaturating
from pinets.recipes.kinds.generation import GenerationRecipe, Network, Pictures
from pinets.recipes.kinds.model import with_model
from pinets.recipes.kinds.recipe import Scale
from pinets.recipes.registry import recipe
from pinets.train.optimizers import Adam
from pinets.train.schedules import Constant

__all__ = ["ffhq256_stylegan", "ffhq256_stylegan_prodpoly"]


@recipe
def ffhq256_stylegan(scale: Scale = "full") -> GenerationRecipe:
    """StyleGAN on FFHQ at 256x256, the baseline.

    Paper: FID 7.15.
    Ours: docs/results/stylegan.md, at small scale.
    Command: pinets compare ffhq256_stylegan ffhq256_stylegan_prodpoly --seeds 1

    Any folder of images does: --set data.name=pictures --data DIR. Small scale is another task: faces of LFWcrop at
    32x32.
    """
    full = GenerationRecipe(
        name="ffhq256_stylegan",
        model=Network("stylegan_generator", {"size": 256}),
        discriminator=Network("stylegan_discriminator", {"size": 256}),
        data=Pictures("ffhq", size=256, flip=True),  # not in paper: here and below, as StyleGAN's
        loss=NonSaturating(r1=10.0),
        optimizer=Adam(lr=0.002, betas=(0.0, 0.99)),
        discriminator_optimizer=Adam(lr=0.002, betas=(0.0, 0.99)),
        schedule=Constant(),
        epochs=781,  # 25 million images
        steps_per_epoch=1000,
        batch=32,
        generator_batch=32,
        average=0.9978,  # half of it is of the last 10,000 images
        metric="fid50k_train",
    )
    return _small(full) if scale == "small" else full


@recipe
def ffhq256_stylegan_prodpoly(scale: Scale = "full") -> GenerationRecipe:
    """StyleGAN on FFHQ at 256x256 with an NCP as its mapping network, which makes it a product of polynomials.

    Paper: FID 6.82.
    Ours: docs/results/stylegan.md, at small scale.
    Command: pinets compare ffhq256_stylegan ffhq256_stylegan_prodpoly --seeds 1
    """
    return with_model(ffhq256_stylegan(scale), "stylegan_prodpoly_generator")


def _small(full: GenerationRecipe) -> GenerationRecipe:
    """LFWcrop at 32x32, with a tenth of the channels."""
    return replace(
        full,
        model=full.model.with_options(size=32, base=512, most=48, latent=64),
        discriminator=full.discriminator.with_options(size=32, base=512, most=48),
        data=Pictures("lfwcrop", size=32, flip=True),
        loss=NonSaturating(r1=1.0),  # its size goes with the number of pixels
        epochs=8,
        steps_per_epoch=250,
        batch=16,
        generator_batch=16,
        average=0.995,
        metric="fid2k",
        checkpoint_every=250,
    )
