"""The tables and figures of the paper, and a few of our own: which recipes each compares, and over how many runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pinets._nearest import did_you_mean
from pinets.recipes.catalogue.mesh import COMPARED_SMALL, OPERATORS
from pinets.recipes.kinds.recipe import Scale

__all__ = ["EXPERIMENTS", "Experiment", "get_experiment"]

Picture = Literal["samples", "shapes", "faces"]


@dataclass(frozen=True)
class Experiment:
    """Recipes that are compared with each other.

    Args:
        title: What is shown, and where it is in the paper.
        recipes: Their names, the baseline first.
        seeds: Runs of each at full scale.
        small_seeds: Runs of each at small scale.
        picture: What there is to look at beside the table and the curves: generated images,
            reconstructed shapes, or ROC curves of faces.
        small_recipes: Those at small scale, where the data differ in more than their amount.
    """

    title: str
    recipes: tuple[str, ...]
    seeds: int = 5  # not in paper, which gives deviations but not over how many runs
    small_seeds: int = 3
    picture: Picture | None = None
    small_recipes: tuple[str, ...] | None = None

    def names(self, scale: Scale) -> tuple[str, ...]:
        return self.small_recipes if scale == "small" and self.small_recipes else self.recipes

    def runs(self, scale: Scale) -> int:
        return self.small_seeds if scale == "small" else self.seeds


def get_experiment(name: str) -> Experiment:
    """An experiment by name.

    >>> get_experiment("speech").recipes
    ('speech_resnet34', 'speech_prodpoly_resnet34')
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}{did_you_mean(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def _without_activations(data: str) -> tuple[str, ...]:
    return tuple(f"{data}_{model}" for model in ("linear", "ccp", "ncp", "ncp_skip"))


def _shapes(data: str, title: str) -> Experiment:
    small = tuple(f"{data}_{name}" for name in COMPARED_SMALL)
    others = tuple(f"{data}_{name}" for name in OPERATORS)
    return Experiment(title, (*small, *others), seeds=1, small_seeds=2, picture="shapes", small_recipes=small)


def _operators(data: str, title: str) -> Experiment:
    names = ("pca", "spiral", "spiral_ncp_3", *OPERATORS)
    return Experiment(title, tuple(f"{data}_{name}" for name in names), seeds=1, small_seeds=2)


EXPERIMENTS = {
    "fashion": Experiment(
        "Clothes generated without activation functions (Fig. 5)",
        _without_activations("fashion"),
        seeds=1,
        small_seeds=1,
        picture="samples",
    ),
    "yaleb": Experiment(
        "Faces generated without activation functions (Fig. 6)",
        _without_activations("yaleb"),
        seeds=1,
        small_seeds=1,
        picture="samples",
    ),
    "sngan": Experiment(
        "SNGAN on CIFAR-10 (Table 3)",
        ("cifar10_sngan", "cifar10_sngan_ncp", "cifar10_sngan_prodpoly"),
        seeds=10,
        picture="samples",
    ),
    "stylegan": Experiment(
        "StyleGAN with a polynomial mapping network",
        ("ffhq256_stylegan", "ffhq256_stylegan_prodpoly"),
        seeds=1,
        small_seeds=1,
        picture="samples",
    ),
    "speech": Experiment("Speech Commands (Table 4)", ("speech_resnet34", "speech_prodpoly_resnet34")),
    "cifar10": Experiment(
        "CIFAR-10, ResNet18 (Table 5 and its figure)", ("cifar10_resnet18", "cifar10_prodpoly_resnet18")
    ),
    "cifar10_resnet34": Experiment("CIFAR-10, ResNet34 (Table 5)", ("cifar10_resnet34", "cifar10_prodpoly_resnet34")),
    "cifar100": Experiment("CIFAR-100 (Table 6)", ("cifar100_resnet34", "cifar100_prodpoly_resnet34")),
    "imagenet": Experiment(
        "ImageNet (Table 7 and its figure)", ("imagenet_resnet50", "imagenet_prodpoly_resnet50"), seeds=1
    ),
    "imagenet_pinet18": Experiment(
        "ImageNet, ResNet18 and Π-nets of its size with and without activations (published code, not the paper)",
        ("imagenet_resnet18", *(f"imagenet_pinet18{ending}" for ending in ("", "_1x1", "_relu", "_1x1_relu"))),
        seeds=1,
    ),
    "faces": Experiment(
        "Face recognition (Tables 9 to 12); at small scale on LFW",
        ("ms1m_arcface_resnet50", "ms1m_arcface_prodpoly_resnet50"),
        seeds=1,
        picture="faces",
        small_recipes=("lfw_iresnet", "lfw_prodpoly_iresnet"),
    ),
    "coma": _shapes("coma", "Faces as meshes, error against order (COMA; at small scale faces of another model)"),
    "dfaust": _shapes(
        "dfaust", "Bodies as meshes, error against order (DFAUST; at small scale bodies of another model)"
    ),
    "coma_operators": _operators(
        "coma", "Faces as meshes, spirals beside other operators (COMA; at small scale faces of another model)"
    ),
    "dfaust_operators": _operators(
        "dfaust", "Bodies as meshes, spirals beside other operators (DFAUST; at small scale bodies of another model)"
    ),
    "polynomial": Experiment(
        "A certified polynomial on CIFAR-10 against its twin with ReLU (not in the paper)",
        ("cifar10_polynomial", "cifar10_polynomial_relu"),
        seeds=3,
    ),
    "fashion_polynomial": Experiment(
        "A certified polynomial on Fashion-MNIST against its twin with ReLU (not in the paper)",
        ("fashion_polynomial", "fashion_polynomial_relu"),
        seeds=3,
    ),
    "encrypted_mnist": Experiment(
        "CCPs for encrypted inference on MNIST, in the clear (not in the paper)", ("mnist_ccp4", "mnist_ccp8"), seeds=3
    ),
    "encrypted_fashion": Experiment(
        "CCPs for encrypted inference on Fashion-MNIST, in the clear (not in the paper)",
        ("fashion_ccp4", "fashion_ccp8"),
        seeds=3,
    ),
}
