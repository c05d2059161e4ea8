"""Recipes for generators: without activations on Fashion-MNIST and Yale B, SNGAN on CIFAR-10, StyleGAN on FFHQ."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import Adam, Constant, LinearDecay
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.generation.losses import Hinge, NonSaturating
from pinets.tasks.generation.recipe import GenerationRecipe, Network, Pictures

__all__ = [
    "cifar10_sngan",
    "cifar10_sngan_ncp",
    "cifar10_sngan_prodpoly",
    "fashion_ccp",
    "fashion_linear",
    "fashion_ncp",
    "fashion_ncp_skip",
    "fashion_prodpoly",
    "ffhq256_stylegan",
    "ffhq256_stylegan_prodpoly",
    "yaleb_ccp",
    "yaleb_linear",
    "yaleb_ncp",
    "yaleb_ncp_skip",
]

_SNGAN = Adam(lr=2e-4, betas=(0.0, 0.9))


@recipe
def fashion_ncp(scale: Scale = "full") -> GenerationRecipe:
    """Pieces of clothing from noise by NCP, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/fashion-medium.md, at medium scale.
    Command: pinets compare fashion_linear fashion_ccp fashion_ncp fashion_ncp_skip --scale medium --seeds 1
    """
    full = GenerationRecipe(
        name="fashion_ncp",
        model=Network("ncp_generator", {"size": 32, "channels": 1}),  # not in paper: the sizes
        discriminator=Network("strided_discriminator", {"size": 32, "channels": 1, "width": 64}),  # not in paper
        data=Pictures("fashion_mnist", pad=2),
        loss=Hinge(),  # not in paper
        noise="normal",  # not in paper: published for the product alone, and uniform
        optimizer=_SNGAN,  # not in paper
        discriminator_optimizer=_SNGAN,  # not in paper
        schedule=LinearDecay(),  # not in paper
        epochs=50,  # not in paper: 50,000 updates
        steps_per_epoch=1000,
        batch=64,  # not in paper
        generator_batch=512,  # not in paper
        average=0.999,  # not in paper
        metric="fid10k_test",  # not in paper
        validation_metric="fid_small",
    )
    return {"full": full, "medium": _medium_activation_free(full), "small": _small_activation_free(full)}[scale]


@recipe
def fashion_ccp(scale: Scale = "full") -> GenerationRecipe:
    """Pieces of clothing from noise by CCP, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/fashion-medium.md, at medium scale.
    Command: pinets compare fashion_linear fashion_ccp fashion_ncp fashion_ncp_skip --scale medium --seeds 1
    """
    return _ccp_of(fashion_ncp(scale), width={"full": 64, "medium": 22, "small": 9}[scale])


@recipe
def fashion_ncp_skip(scale: Scale = "full") -> GenerationRecipe:
    """Pieces of clothing from noise by NCP-Skip, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/fashion-medium.md, at medium scale.
    Command: pinets compare fashion_linear fashion_ccp fashion_ncp fashion_ncp_skip --scale medium --seeds 1
    """
    return with_model(fashion_ncp(scale), "ncp_skip_generator")


@recipe
def fashion_linear(scale: Scale = "full") -> GenerationRecipe:
    """The generator of fashion_ncp stripped of its products, which leaves it linear: what the products are worth.

    Paper: not in it.
    Ours: docs/results/fashion-medium.md, at medium scale.
    Command: pinets compare fashion_linear fashion_ccp fashion_ncp fashion_ncp_skip --scale medium --seeds 1
    """
    return with_model(fashion_ncp(scale), "linear_generator")


@recipe
def fashion_prodpoly(scale: Scale = "full") -> GenerationRecipe:
    """Pieces of clothing from noise by a product of polynomials without activations, as it was published.

    Paper: not in it; a figure in its supplement.
    Ours: not measured yet.
    Command: pinets train fashion_prodpoly
    """
    return replace(with_model(fashion_ncp(scale), "prodpoly_generator"), noise="uniform")


@recipe
def yaleb_ncp(scale: Scale = "full") -> GenerationRecipe:
    """Faces from noise by NCP, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/yaleb-small.md, at small scale.
    Command: pinets compare yaleb_linear yaleb_ccp yaleb_ncp yaleb_ncp_skip --scale small --seeds 1
    """
    fashion, side = fashion_ncp(scale), 64 if scale == "full" else 32  # not in paper: the size of the images
    return replace(
        fashion,
        model=fashion.model.with_options(size=side),
        discriminator=fashion.discriminator.with_options(size=side),
        data=Pictures("yaleb", size=side, flip=True),  # not in paper: the mirror images
        metric="fid5k" if scale == "full" else fashion.metric,  # its test images are few
    )


@recipe
def yaleb_ccp(scale: Scale = "full") -> GenerationRecipe:
    """Faces from noise by CCP, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/yaleb-small.md, at small scale.
    Command: pinets compare yaleb_linear yaleb_ccp yaleb_ncp yaleb_ncp_skip --scale small --seeds 1
    """
    return _ccp_of(yaleb_ncp(scale), width={"full": 52, "medium": 22, "small": 9}[scale])


@recipe
def yaleb_ncp_skip(scale: Scale = "full") -> GenerationRecipe:
    """Faces from noise by NCP-Skip, without activations.

    Paper: a figure, and no number.
    Ours: docs/results/yaleb-small.md, at small scale.
    Command: pinets compare yaleb_linear yaleb_ccp yaleb_ncp yaleb_ncp_skip --scale small --seeds 1
    """
    return with_model(yaleb_ncp(scale), "ncp_skip_generator")


@recipe
def yaleb_linear(scale: Scale = "full") -> GenerationRecipe:
    """The generator of yaleb_ncp stripped of its products, which leaves it linear.

    Paper: not in it.
    Ours: docs/results/yaleb-small.md, at small scale.
    Command: pinets compare yaleb_linear yaleb_ccp yaleb_ncp yaleb_ncp_skip --scale small --seeds 1
    """
    return with_model(yaleb_ncp(scale), "linear_generator")


@recipe
def cifar10_sngan(scale: Scale = "full") -> GenerationRecipe:
    """SNGAN on CIFAR-10, the baseline.

    Paper: IS 8.06 +- 0.10, FID 19.06 +- 0.50 (10 runs).
    Ours: docs/results/sngan-medium.md, at medium scale.
    Command: pinets compare cifar10_sngan cifar10_sngan_ncp cifar10_sngan_prodpoly --seeds 10
    """
    full = GenerationRecipe(
        name="cifar10_sngan",
        model=Network("sngan_generator"),
        discriminator=Network("sngan_discriminator"),
        data=Pictures("cifar10", flip=False),  # not in paper
        loss=Hinge(),
        optimizer=_SNGAN,
        discriminator_optimizer=_SNGAN,
        schedule=LinearDecay(),
        epochs=50,
        steps_per_epoch=1000,
        batch=64,
        discriminator_steps=5,
        generator_batch=128,
        average=0.999,  # not in paper
        metric="fid50k_train,is50k_10splits",
    )
    return {"full": full, "medium": _medium_sngan(full), "small": _small_sngan(full)}[scale]


@recipe
def cifar10_sngan_ncp(scale: Scale = "full") -> GenerationRecipe:
    """SNGAN with its generator as an NCP, each residual block one order.

    Paper: IS 8.30 +- 0.09, FID 17.65 +- 0.76 (10 runs).
    Ours: docs/results/sngan-medium.md, at medium scale.
    Command: pinets compare cifar10_sngan cifar10_sngan_ncp cifar10_sngan_prodpoly --seeds 10
    """
    return with_model(cifar10_sngan(scale), "sngan_ncp_generator")


@recipe
def cifar10_sngan_prodpoly(scale: Scale = "full") -> GenerationRecipe:
    """SNGAN with its generator as a product of polynomials.

    Paper: IS 8.49 +- 0.11, FID 16.79 +- 0.81 (10 runs).
    Ours: docs/results/sngan-medium.md, at medium scale.
    Command: pinets compare cifar10_sngan cifar10_sngan_ncp cifar10_sngan_prodpoly --seeds 10
    """
    return with_model(cifar10_sngan(scale), "sngan_prodpoly_generator")


@recipe
def ffhq256_stylegan(scale: Scale = "full") -> GenerationRecipe:
    """StyleGAN on FFHQ at 256x256, the baseline.

    Paper: FID 7.15.
    Ours: docs/results/stylegan-medium.md, at medium scale.
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
    return {"full": full, "medium": _medium_stylegan(full), "small": _small_stylegan(full)}[scale]


@recipe
def ffhq256_stylegan_prodpoly(scale: Scale = "full") -> GenerationRecipe:
    """StyleGAN on FFHQ at 256x256 with an NCP as its mapping network, which makes it a product of polynomials.

    Paper: FID 6.82.
    Ours: docs/results/stylegan-medium.md, at medium scale.
    Command: pinets compare ffhq256_stylegan ffhq256_stylegan_prodpoly --seeds 1
    """
    return with_model(ffhq256_stylegan(scale), "stylegan_prodpoly_generator")


def _ccp_of(ncp: GenerationRecipe, width: int) -> GenerationRecipe:
    """The same with CCP, of a width that makes it as large as NCP."""
    ccp = with_model(ncp, "ccp_generator")
    return replace(ccp, model=ccp.model.with_options(width=width))


def _small_activation_free(full: GenerationRecipe) -> GenerationRecipe:
    """A fifth of the width, half the noise, a twelfth of the updates, and larger steps: ten minutes on one core."""
    faster = Adam(lr=1e-3, betas=(0.0, 0.9))
    return replace(
        full,
        model=full.model.with_options(width=12, latent=64),
        discriminator=full.discriminator.with_options(width=24),
        optimizer=faster,
        discriminator_optimizer=faster,
        epochs=8,
        steps_per_epoch=500,
        batch=32,
        generator_batch=32,
        average=0.99,
        metric="fid_small",
        checkpoint_every=250,
    )


def _medium_activation_free(full: GenerationRecipe) -> GenerationRecipe:
    """Twice the width of small scale, and three times the updates, in mixed precision."""
    small = _small_activation_free(full)
    return replace(
        small,
        model=small.model.with_options(width=24),
        discriminator=small.discriminator.with_options(width=32),
        epochs=6,
        steps_per_epoch=2000,
        precision="bf16",
        average=0.999,
        checkpoint_every=500,
    )


def _small_sngan(full: GenerationRecipe) -> GenerationRecipe:
    """A tenth of the width, fewer images a step, one update of the discriminator for one of the generator."""
    faster = Adam(lr=1e-3, betas=(0.0, 0.9))
    return replace(
        full,
        model=full.model.with_options(width=24),
        discriminator=full.discriminator.with_options(width=24),
        optimizer=faster,
        discriminator_optimizer=faster,
        epochs=8,
        steps_per_epoch=250,
        batch=32,
        discriminator_steps=1,
        generator_batch=32,
        average=0.99,
        metric="fid2k",
        validation_metric=None,
        checkpoint_every=250,
    )


def _medium_sngan(full: GenerationRecipe) -> GenerationRecipe:
    """An eighth of the width, and 20,000 updates in mixed precision."""
    small = _small_sngan(full)
    return replace(
        small,
        model=small.model.with_options(width=32),
        discriminator=small.discriminator.with_options(width=32),
        # 1e-3, which small scale lives on while it falls, keeps the discriminator from learning: its loss stays at 2
        optimizer=full.optimizer,
        discriminator_optimizer=replace(full.optimizer, lr=4e-4),  # one update where the paper has five
        epochs=20,
        steps_per_epoch=1000,
        precision="bf16",
        average=0.999,
        metric="fid5k",
        validation_metric="fid_small",
        checkpoint_every=500,
    )


def _small_stylegan(full: GenerationRecipe) -> GenerationRecipe:
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


def _medium_stylegan(full: GenerationRecipe) -> GenerationRecipe:
    """As small scale, for 10,000 updates, in which a discriminator this narrow keeps up if it learns faster."""
    return replace(
        _small_stylegan(full),
        discriminator_optimizer=replace(full.discriminator_optimizer, lr=0.006),
        epochs=10,
        steps_per_epoch=1000,
        average=0.998,
        metric="fid5k",
        checkpoint_every=500,
    )
