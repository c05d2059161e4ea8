"""CIFAR-10 and CIFAR-100: ResNets against Prodpoly-ResNets with fewer blocks."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, MultiStep, OneCycle
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model

__all__ = [
    "at_scale",
    "cifar10_prodpoly_resnet18",
    "cifar10_prodpoly_resnet34",
    "cifar10_resnet18",
    "cifar10_resnet18_cut",
    "cifar10_resnet18_cut_widened",
    "cifar10_resnet34",
    "cifar100_prodpoly_resnet34",
    "cifar100_resnet34",
]


@recipe
def cifar10_resnet18(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet18 on CIFAR-10, the baseline.

    Paper: accuracy 0.945 +- 0.000, 11.2 M parameters.
    Ours: docs/results/cifar10-medium.md, at medium scale.
    Command: pinets compare cifar10_resnet18 cifar10_prodpoly_resnet18 --seeds 5
    """
    full = ClassificationRecipe(
        name="cifar10_resnet18",
        model=Model("resnet18_cifar"),
        data=Images(
            "cifar10",
            classes=10,
            validation=0.1,  # not in paper: its code chose by the test set
            crop=4,  # not in paper
            flip=True,  # not in paper
        ),
        optimizer=SGD(
            lr=0.1,
            momentum=0.9,  # not in paper
            weight_decay=5e-4,  # not in paper
        ),
        schedule=MultiStep((40, 60, 80, 100), gamma=0.1),
        epochs=120,
        batch=128,
    )
    return at_scale(full, scale)


@recipe
def cifar10_prodpoly_resnet18(scale: Scale = "full") -> ClassificationRecipe:
    """Prodpoly-ResNet with blocks [2, 2, 1, 1] on CIFAR-10, to match ResNet18 with 46 % fewer parameters.

    Paper: accuracy 0.945 +- 0.001, 6.0 M parameters.
    Ours: docs/results/cifar10-medium.md, at medium scale.
    Command: pinets compare cifar10_resnet18 cifar10_prodpoly_resnet18 --seeds 5
    """
    return with_model(cifar10_resnet18(scale), "prodpoly_resnet18_cifar")


@recipe
def cifar10_resnet18_cut(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet18 with the blocks of its Prodpoly-ResNet, [2, 2, 1, 1], and no products: what the cut alone costs.

    Paper: not in it.
    Ours: docs/results/cifar10_ablation-medium.md, at medium scale.
    Command: pinets compare cifar10_resnet18_cut cifar10_prodpoly_resnet18 --seeds 5
    """
    baseline = cifar10_resnet18(scale)
    return replace(baseline, model=baseline.model.with_options(depths=(2, 2, 1, 1)))


@recipe
def cifar10_resnet18_cut_widened(scale: Scale = "full") -> ClassificationRecipe:
    """The cut ResNet18, widened to the parameters of the Prodpoly-ResNet: what the products are worth at equal size.

    Paper: not in it.
    Ours: docs/results/cifar10_ablation-medium.md, at medium scale.
    Command: pinets compare cifar10_resnet18_cut_widened cifar10_prodpoly_resnet18 --seeds 5
    """
    cut = cifar10_resnet18_cut(scale)
    # 5.95 M parameters to 6.01 M at full scale, 375,000 to 378,000 below: the nearest widths
    return replace(cut, model=cut.model.with_options(width=68 if scale == "full" else 17))


@recipe
def cifar10_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet34 on CIFAR-10, the baseline.

    Paper: accuracy 0.948 +- 0.001, 21.3 M parameters.
    Ours: not measured yet.
    Command: pinets compare cifar10_resnet34 cifar10_prodpoly_resnet34 --seeds 5
    """
    return with_model(cifar10_resnet18(scale), "resnet34_cifar")


@recipe
def cifar10_prodpoly_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """Prodpoly-ResNet with blocks [3, 3, 2, 2] on CIFAR-10, to match ResNet34 with 39 % fewer parameters.

    Paper: accuracy 0.949 +- 0.002, 13.0 M parameters.
    Ours: not measured yet.
    Command: pinets compare cifar10_resnet34 cifar10_prodpoly_resnet34 --seeds 5
    """
    return with_model(cifar10_resnet18(scale), "prodpoly_resnet34_cifar")


@recipe
def cifar100_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet34 on CIFAR-100, the baseline.

    Paper: accuracy 0.769 +- 0.003, 21.3 M parameters.
    Ours: not measured yet.
    Command: pinets compare cifar100_resnet34 cifar100_prodpoly_resnet34 --seeds 5
    """
    ten = cifar10_resnet34(scale)
    return replace(ten, data=replace(ten.data, name="cifar100", classes=100))


@recipe
def cifar100_prodpoly_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """Prodpoly-ResNet with blocks [3, 4, 3, 2] on CIFAR-100, to match ResNet34 with 31 % fewer parameters.

    Paper: accuracy 0.769 +- 0.001, 14.7 M parameters.
    Ours: not measured yet.
    Command: pinets compare cifar100_resnet34 cifar100_prodpoly_resnet34 --seeds 5
    """
    return with_model(cifar100_resnet34(scale), "prodpoly_resnet34_cifar100")


def at_scale(full: ClassificationRecipe, scale: Scale) -> ClassificationRecipe:
    """The recipe at full scale, or with a quarter of the width and few epochs: half an hour on one core.

    Medium scale is as small, for 20 epochs in bf16, which is 1.7 times as fast on a CPU with AVX-512.
    """
    if scale == "full":
        return full
    small = replace(
        full,
        model=full.model.with_options(width=16),
        optimizer=replace(full.optimizer, lr=0.2),
        schedule=OneCycle(rise=0.25, start=0.1, end=0.0),  # a short run gains from ending at 0
        epochs=5,
        checkpoint_every=100,
    )
    return replace(small, epochs=20, precision="bf16") if scale == "medium" else small
