"""ImageNet: ResNet50 against Prodpoly-ResNet50, and PiNet-18 without activations."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, MultiStep, OneCycle, Warmup
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model

__all__ = [
    "imagenet_pinet18",
    "imagenet_pinet18_1x1",
    "imagenet_pinet18_1x1_relu",
    "imagenet_pinet18_relu",
    "imagenet_prodpoly_resnet50",
    "imagenet_resnet18",
    "imagenet_resnet50",
]


@recipe
def imagenet_resnet50(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet50 on ImageNet, the baseline.

    Paper: error top-1 23.546 %, top-5 6.904 %.
    Ours: not measured yet.
    Command: torchrun --nproc-per-node 4 --no-python pinets train imagenet_resnet50

    Small and medium scale are another task: Tiny ImageNet at 64x64, a quarter of the width.
    """
    full = ClassificationRecipe(
        name="imagenet_resnet50",
        model=Model("resnet50"),
        data=Images(
            "imagenet",
            classes=1000,
            validation=0.02,  # not in paper: held out, so that the official validation images stay our test set
            crop=0,  # images are cropped while they are decoded
        ),
        optimizer=SGD(lr=0.2, momentum=0.9, weight_decay=1e-4),
        # Goyal et al. warm up from the rate for 256 images, half of ours
        schedule=Warmup(epochs=5, start=0.5, then=MultiStep((30, 60, 80), gamma=0.1)),
        epochs=90,
        batch=512,
        top_k=(1, 5),
        checkpoint_every=1000,
    )
    return at_scale(full, scale)


@recipe
def imagenet_prodpoly_resnet50(scale: Scale = "full") -> ClassificationRecipe:
    """Prodpoly-ResNet50 on ImageNet, with tanh on the second order of each block.

    Paper: error top-1 22.827 %, top-5 6.431 %.
    Ours: not measured yet.
    Command: torchrun --nproc-per-node 4 --no-python pinets train imagenet_prodpoly_resnet50
    """
    return with_model(imagenet_resnet50(scale), "prodpoly_resnet50")


@recipe
def imagenet_resnet18(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet18 on ImageNet, the baseline of PiNet-18.

    Paper: not in it; published with PiNet-18: accuracy top-1 69.90 %, top-5 89.43 %, 11.7 M parameters.
    Ours: not measured yet.
    Command: pinets compare imagenet_resnet18 imagenet_pinet18_relu --seeds 1
    """
    full = replace(
        imagenet_resnet50("full"),
        model=Model("resnet18"),
        optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=1e-4),  # not in paper: published with PiNet-18, as all here
        schedule=MultiStep((30, 60, 90), gamma=0.1),  # not in paper
        epochs=100,  # not in paper
        batch=256,  # not in paper
    )
    return at_scale(full, scale)


@recipe
def imagenet_pinet18(scale: Scale = "full") -> ClassificationRecipe:
    """PiNet-18 on ImageNet without activations; its max-pool, as published, is not a polynomial.

    Paper: not in it; published with PiNet-18: accuracy top-1 63.67 %, top-5 84.34 %; ResNet18 without activations
    18.35 %, 36.72 %.
    Ours: not measured yet.
    Command: pinets compare imagenet_resnet18 imagenet_pinet18 --seeds 1
    """
    return with_model(imagenet_resnet18(scale), "pinet18")


@recipe
def imagenet_pinet18_1x1(scale: Scale = "full") -> ClassificationRecipe:
    """PiNet-18 on ImageNet with 1x1 convolutions on the products, without activations.

    Paper: not in it; published with PiNet-18: accuracy top-1 65.31 %, top-5 85.83 %.
    Ours: not measured yet.
    Command: pinets compare imagenet_resnet18 imagenet_pinet18_1x1 --seeds 1
    """
    return with_model(imagenet_resnet18(scale), "pinet18_1x1")


@recipe
def imagenet_pinet18_relu(scale: Scale = "full") -> ClassificationRecipe:
    """PiNet-18 on ImageNet with ReLU.

    Paper: not in it; published with PiNet-18: accuracy top-1 70.35 %, top-5 89.43 %.
    Ours: not measured yet.
    Command: pinets compare imagenet_resnet18 imagenet_pinet18_relu --seeds 1
    """
    return with_model(imagenet_resnet18(scale), "pinet18_relu")


@recipe
def imagenet_pinet18_1x1_relu(scale: Scale = "full") -> ClassificationRecipe:
    """PiNet-18 on ImageNet with 1x1 convolutions on the products, with ReLU.

    Paper: not in it; published with PiNet-18: accuracy top-1 71.64 %, top-5 90.23 %.
    Ours: not measured yet.
    Command: pinets compare imagenet_resnet18 imagenet_pinet18_1x1_relu --seeds 1
    """
    return with_model(imagenet_resnet18(scale), "pinet18_1x1_relu")


def at_scale(full: ClassificationRecipe, scale: Scale) -> ClassificationRecipe:
    """The recipe at full scale, or for Tiny ImageNet at a quarter of the width: 8 epochs, or 60 at medium scale."""
    if scale == "full":
        return full
    return replace(
        full,
        model=full.model.with_options(width=16),
        data=Images("tiny_imagenet", classes=200, validation=0.1, crop=8),
        schedule=OneCycle(rise=0.25, start=0.1, end=0.0),
        epochs={"medium": 60, "small": 8}[scale],
        batch=128,
        checkpoint_every=100,
    )
