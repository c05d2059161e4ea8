"""Classifiers that are polynomials of the image, certified, against the same networks with ReLU.

No strictly polynomial baseline has been published for these sets; the training follows R-PolyNets where it says how.
"""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, MultiStep
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.catalogue.cifar import at_scale
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model

__all__ = ["cifar10_polynomial", "cifar10_polynomial_relu", "fashion_polynomial", "fashion_polynomial_relu"]


@recipe
def cifar10_polynomial(scale: Scale = "full") -> ClassificationRecipe:
    """A strictly polynomial residual network on CIFAR-10: no activation, no max-pool, batch norm only.

    Paper: not in it.
    Ours: docs/results/polynomial-small.md, at small scale.
    Command: pinets compare cifar10_polynomial cifar10_polynomial_relu --seeds 3
    """
    full = ClassificationRecipe(
        name="cifar10_polynomial",
        model=Model("polynomial_resnet_cifar"),
        data=Images("cifar10", classes=10),  # not in paper
        optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),  # not in paper
        schedule=MultiStep((40, 60, 80, 100), gamma=0.1),  # not in paper: as for the other CIFAR networks
        epochs=120,  # not in paper
        batch=128,  # not in paper
        label_smoothing=0.1,  # not in paper: of R-PolyNets
        clip=1.0,  # not in paper: a polynomial of high degree has gradients without bound
    )
    if scale == "full":
        return full
    reduced = at_scale(full, scale)
    return replace(reduced, model=reduced.model.with_options(drop=0.0))  # DropBlock needs more epochs than these


@recipe
def cifar10_polynomial_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The same network on CIFAR-10 with ReLU where residual networks have it.

    Paper: not in it.
    Ours: docs/results/polynomial-small.md, at small scale.
    Command: pinets compare cifar10_polynomial cifar10_polynomial_relu --seeds 3
    """
    return with_model(cifar10_polynomial(scale), "polynomial_resnet_cifar_relu")


@recipe
def fashion_polynomial(scale: Scale = "full") -> ClassificationRecipe:
    """A strictly polynomial residual network on Fashion-MNIST.

    Paper: not in it.
    Ours: docs/results/fashion_polynomial-small.md, at small scale.
    Command: pinets compare fashion_polynomial fashion_polynomial_relu --seeds 3
    """
    cifar = cifar10_polynomial(scale)
    return replace(
        cifar,
        model=cifar.model.with_options(in_channels=1),
        data=Images("fashion_mnist", classes=10, crop=2),  # not in paper
        epochs={"full": cifar.epochs, "medium": 12, "small": 3}[scale],
    )


@recipe
def fashion_polynomial_relu(scale: Scale = "full") -> ClassificationRecipe:
    """The same network on Fashion-MNIST with ReLU.

    Paper: not in it.
    Ours: docs/results/fashion_polynomial-small.md, at small scale.
    Command: pinets compare fashion_polynomial fashion_polynomial_relu --seeds 3
    """
    return with_model(fashion_polynomial(scale), "polynomial_resnet_cifar_relu")
