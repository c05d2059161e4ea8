"""Plain convolutional polynomials of the image, kept tame by a range penalty, against the same networks with ReLU."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, Muon, OneCycle
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model, RangePenalty

__all__ = [
    "cifar10_strict",
    "cifar10_strict_relu",
    "cifar10_strict_resnet",
    "cifar10_strict_resnet_relu",
    "cifar10_strict_tame",
    "cifar10_strict_tame_relu",
    "fashion_strict",
    "fashion_strict_relu",
]


@recipe
def cifar10_strict(scale: Scale = "full") -> ClassificationRecipe:
    """Four blocks BN(u * v + u) on CIFAR-10: a polynomial of degree 16 of the image, certified.

    Medium scale is a quarter of the full one's parameters (484,000) for 40 epochs, about 40 minutes on a core.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict --scale medium
    """
    full = ClassificationRecipe(
        name="cifar10_strict",
        model=Model("strict_convnet", {"widths": (64, 128, 256, 256)}),  # not in paper
        data=Images("cifar10", classes=10),  # not in paper
        optimizer=SGD(lr=0.2, momentum=0.9, weight_decay=5e-4),  # not in paper
        schedule=OneCycle(rise=0.25, start=0.1, end=0.0),  # not in paper
        epochs=60,  # not in paper
        batch=128,  # not in paper
        precision="bf16",  # not in paper: 1.7 times as fast as float32 on a CPU with AVX-512
        label_smoothing=0.05,  # not in paper
        clip=2.0,  # not in paper: a polynomial has gradients without bound
        range_penalty=RangePenalty(weight=0.3, limit=4.0),  # not in paper
        average=0.998,  # not in paper
    )
    if scale == "full":
        return full
    narrow = full.model.with_options(widths=(32, 64, 128, 128))
    if scale == "medium":
        return replace(full, model=narrow, epochs=40)
    return replace(full, model=narrow, epochs=8, average=0.99)  # a short run forgets its start sooner


@recipe
def cifar10_strict_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The same network on CIFAR-10 with ReLU in place of the product, trained alike.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict_relu --scale medium
    """
    return with_model(cifar10_strict(scale), "strict_convnet_relu")


@recipe
def cifar10_strict_tame(scale: Scale = "full") -> ClassificationRecipe:
    """The same network on CIFAR-10, made to stand images that are unlike the training images.

    It sees changes of contrast and brightness, and one large output of an image is enough for the range penalty.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict_tame --scale medium
    """
    strict = cifar10_strict(scale)
    return replace(
        strict,
        data=Images("cifar10", classes=10, light=0.5),  # not in paper
        optimizer=Muon(lr=0.015, momentum=0.9),  # not in paper
        range_penalty=RangePenalty(weight=0.02, limit=8.0, over="images"),  # not in paper
        epochs={"full": 60, "medium": 20, "small": 8}[scale],  # not in paper
    )


@recipe
def cifar10_strict_tame_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The twin of cifar10_strict_tame with ReLU in place of the product, trained alike.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict_tame_relu --scale medium
    """
    return with_model(cifar10_strict_tame(scale), "strict_convnet_relu")


@recipe
def cifar10_strict_resnet(scale: Scale = "full") -> ClassificationRecipe:
    """Seven blocks BN(u * u) + u on CIFAR-10, three of them residual: a polynomial of degree 128, certified.

    It is evaluated as the average over the image and its mirror image, which is a polynomial of the same degree.

    Medium scale is 1.5 million parameters for 30 epochs, about an hour on a core.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict_resnet --scale medium
    """
    full = replace(
        cifar10_strict_tame(scale),
        name="cifar10_strict_resnet",
        model=Model("strict_resnet", {"widths": (64, 128, 256, 512), "mirror": True}),  # not in paper
        data=Images("cifar10", classes=10, light=0.25, colour=0.5),  # not in paper
        optimizer=Muon(lr=0.012, momentum=0.9),  # not in paper
        range_penalty=RangePenalty(weight=0.05, limit=6.0, over="images"),  # not in paper
        epochs=60,  # not in paper
    )
    if scale == "full":
        return full
    narrow = full.model.with_options(widths=(32, 64, 192, 256))
    return replace(full, model=narrow, epochs=30 if scale == "medium" else 3)


@recipe
def cifar10_strict_resnet_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The twin of cifar10_strict_resnet with ReLU in place of the square, trained alike.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train cifar10_strict_resnet_relu --scale medium
    """
    return with_model(cifar10_strict_resnet(scale), "strict_resnet_relu")


@recipe
def fashion_strict(scale: Scale = "full") -> ClassificationRecipe:
    """Three blocks BN(u * v + u) on Fashion-MNIST: a polynomial of degree 8 of the image, certified.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train fashion_strict --scale small
    """
    cifar = cifar10_strict("full")
    full = replace(
        cifar,
        model=Model("strict_convnet", {"widths": (32, 64, 128), "in_channels": 1}),  # not in paper
        data=Images("fashion_mnist", classes=10, crop=2),  # not in paper
        epochs=40,  # not in paper
    )
    if scale == "full":
        return full
    narrow = full.model.with_options(widths=(16, 32, 32))
    if scale == "medium":
        return replace(full, model=narrow, epochs=30)
    return replace(full, model=narrow, epochs=3, average=0.99)


@recipe
def fashion_strict_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The same network on Fashion-MNIST with ReLU in place of the product, trained alike.

    Paper: not in it.
    Ours: docs/strict.md.
    Command: pinets train fashion_strict_relu --scale small
    """
    return with_model(fashion_strict(scale), "strict_convnet_relu")
