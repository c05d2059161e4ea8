"""Networks trained with a bound in the loss, so that their answers can be proven around images."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.catalogue.encrypted import mnist_ccp2_robust
from pinets.tasks.classification.recipe import Certified, ClassificationRecipe, Images, Model

__all__ = ["cifar10_conv2_certified", "mnist_ccp2_certified", "mnist_conv2_certified"]


@recipe
def mnist_ccp2_certified(scale: Scale = "full") -> ClassificationRecipe:
    """A CCP of order 2 on MNIST as mnist_ccp2_robust, with a bound in the loss in place of an attack.

    Paper: not in it.
    Ours: docs/verification.md, at small scale.
    Command: pinets train mnist_ccp2_certified --scale small
    """
    return replace(mnist_ccp2_robust(scale), robust=Certified(eps=0.11))


@recipe
def mnist_conv2_certified(scale: Scale = "full") -> ClassificationRecipe:
    """A convolutional CCP of order 2 on MNIST, with a bound in the loss, for all images within 0.1.

    Paper: not in it.
    Ours: docs/verification.md, at small scale.
    Command: pinets train mnist_conv2_certified --scale small --set epochs=2
    """
    plain = mnist_ccp2_certified(scale)
    return replace(plain, model=Model("ccp4_conv_cifar", {"order": 2, "channels": 32, "image": (1, 28, 28)}))


@recipe
def cifar10_conv2_certified(scale: Scale = "full") -> ClassificationRecipe:
    """A convolutional CCP of order 2 on CIFAR-10, with a bound in the loss, for all images within 2/255.

    For 8/255: ``robust.eps=0.0314``.

    Paper: not in it.
    Ours: docs/verification.md, at small scale.
    Command: pinets train cifar10_conv2_certified --scale small --set epochs=6
    """
    plain = mnist_ccp2_certified(scale)
    return replace(
        plain,
        model=Model("ccp4_conv_cifar", {"order": 2, "channels": 32}),
        data=Images("cifar10", classes=10, crop=2),  # not in paper
        robust=Certified(eps=2 / 255),
    )
