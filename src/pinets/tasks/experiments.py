"""The tables and figures of the paper: which recipes each compares, and how often they are run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pinets._nearest import did_you_mean
from pinets.engine.recipe import Scale
from pinets.tasks.meshes.catalogue import COMPARED_MEDIUM, COMPARED_SMALL, OPERATORS, short_name

__all__ = ["EXPERIMENTS", "Experiment", "Picture", "get_experiment"]

Picture = Literal["samples", "shapes", "faces"]
Names = Mapping[str, str]  # of recipes, and what a page calls their networks


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Args:
        title: What it shows, and where it is in the paper.
        recipes: The compared recipes or variants, and the names of their networks, the baseline first.
        seeds: Runs of each recipe at full scale.
        medium_seeds: Runs of each at medium scale.
        small_seeds: Runs of each at small scale.
        picture: What the page shows beside the table and the curves: generated images, reconstructed shapes, or ROC
            curves of faces.
        medium_recipes: The recipes at medium scale, where they are others.
        small_recipes: The recipes at small scale, where they are other than those at medium scale.
    """

    title: str
    recipes: Names
    seeds: int = 5  # not in paper, which gives deviations but not over how many runs
    medium_seeds: int = 2
    small_seeds: int = 3
    picture: Picture | None = None
    medium_recipes: Names | None = None
    small_recipes: Names | None = None

    def names(self, scale: Scale) -> Names:
        """The recipes at a scale, with the names of their networks."""
        medium = self.medium_recipes or self.recipes
        return {"full": self.recipes, "medium": medium, "small": self.small_recipes or medium}[scale]

    def runs(self, scale: Scale) -> int:
        return {"full": self.seeds, "medium": self.medium_seeds, "small": self.small_seeds}[scale]


def get_experiment(name: str) -> Experiment:
    """An experiment by name.

    >>> list(get_experiment("speech").recipes)
    ['speech_resnet34', 'speech_prodpoly_resnet34']
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}{did_you_mean(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def _without_activations(data: str, title: str) -> Experiment:
    names = {"linear": "linear", "ccp": "CCP", "ncp": "NCP", "ncp_skip": "NCP-Skip"}
    recipes = {f"{data}_{ending}": name for ending, name in names.items()}
    return Experiment(title, recipes, seeds=1, medium_seeds=1, small_seeds=1, picture="samples")


def _shapes(data: str, title: str, *, medium: Iterable[str] = COMPARED_SMALL) -> Experiment:
    def names(endings: Iterable[str]) -> Names:
        return {f"{data}_{ending}": short_name(ending) for ending in endings}

    return Experiment(
        title,
        names((*COMPARED_SMALL, *OPERATORS)),
        seeds=1,
        small_seeds=2,
        picture="shapes",
        medium_recipes=names(medium),
        small_recipes=names(COMPARED_SMALL),
    )


def _operators(data: str, title: str) -> Experiment:
    names = ("pca", "spiral", "spiral_ncp_3", *OPERATORS)
    return Experiment(title, {f"{data}_{name}": short_name(name) for name in names}, seeds=1, small_seeds=2)


def _changed(endings: Iterable[str], change: str, how: str) -> Names:
    """Networks for bodies in motion with one value changed."""
    return {f"motions_{ending}:{change}": f"{short_name(ending)}, {how}" for ending in endings}


def _trained_for(epochs: int) -> Names:
    compared = ("spiral_linear", "spiral", "spiral_simple_2_linear", "spiral_ncp_2_linear")
    return _changed(compared, f"epochs={epochs}", f"{epochs} epochs")


def _widened(encoder: str, decoder: str) -> Names:
    """An NCP, and networks with fewer parameters, also with the widths that give them as many."""
    return {
        name + change: short_name(name.removeprefix("motions_")) + how
        for name in ("motions_spiral", "motions_spiral_simple_2_linear")
        for change, how in (("", ""), (f":{encoder}:{decoder}", ", 22 features for 16"))
    } | {"motions_spiral_ncp_2_linear": short_name("spiral_ncp_2_linear")}


_SNGANS = {"cifar10_sngan": "SNGAN", "cifar10_sngan_ncp": "NCP", "cifar10_sngan_prodpoly": "ProdPoly"}
_RESNETS18 = {"cifar10_resnet18": "ResNet18", "cifar10_prodpoly_resnet18": "Prodpoly-ResNet"}
_BY_ORDER = ("pca", "spiral_linear", *(f"spiral_ncp_{order}_linear" for order in (2, 3, 4)))

EXPERIMENTS = {
    "fashion": _without_activations("fashion", "Clothes without activations (Fig. 5)"),
    "yaleb": _without_activations("yaleb", "Faces without activations (Fig. 6)"),
    "sngan": Experiment(
        "SNGAN on CIFAR-10 (Table 3)",
        _SNGANS,
        seeds=10,
        picture="samples",
        medium_recipes=_SNGANS | {"cifar10_sngan:model.width=40": "SNGAN, widened past ProdPoly's parameters"},
        small_recipes=_SNGANS,
    ),
    "stylegan": Experiment(
        "StyleGAN with a polynomial mapping network",
        {"ffhq256_stylegan": "StyleGAN", "ffhq256_stylegan_prodpoly": "ProdPoly-StyleGAN"},
        seeds=1,
        medium_seeds=1,
        small_seeds=1,
        picture="samples",
    ),
    "speech": Experiment(
        "Speech Commands (Table 4)",
        {"speech_resnet34": "ResNet34", "speech_prodpoly_resnet34": "Prodpoly-ResNet"},
        medium_seeds=3,
    ),
    "cifar10": Experiment(
        "CIFAR-10, ResNet18 (Table 5)",
        _RESNETS18,
        medium_seeds=1,
        medium_recipes={  # the paper's own networks, for a tenth of its epochs
            f"{recipe}:model.width=64:epochs=12": f"{name}, 12 epochs"
            for recipe, name in (_RESNETS18 | {"cifar10_resnet18_cut": "its blocks without products"}).items()
        },
        small_recipes=_RESNETS18,
    ),
    "cifar10_ablation": Experiment(
        "CIFAR-10: products or more width",
        _RESNETS18
        | {
            "cifar10_resnet18_cut": "its blocks without products",
            "cifar10_resnet18_cut_widened": "the same, widened to its parameters",
        },
    ),
    "cifar10_recipe": Experiment(
        "CIFAR-10: what momentum and weight decay are worth",
        {
            "cifar10_resnet18": "ResNet18",
            "cifar10_resnet18:optimizer.momentum=0": "without momentum",
            "cifar10_resnet18:optimizer.weight_decay=0": "without weight decay",
        },
        medium_seeds=1,
    ),
    "cifar10_resnet34": Experiment(
        "CIFAR-10, ResNet34 (Table 5)",
        {"cifar10_resnet34": "ResNet34", "cifar10_prodpoly_resnet34": "Prodpoly-ResNet"},
        medium_seeds=1,
    ),
    "cifar100": Experiment(
        "CIFAR-100 (Table 6)",
        {"cifar100_resnet34": "ResNet34", "cifar100_prodpoly_resnet34": "Prodpoly-ResNet"},
        medium_seeds=1,
    ),
    "imagenet": Experiment(
        "ImageNet (Table 7)",
        {"imagenet_resnet50": "ResNet50", "imagenet_prodpoly_resnet50": "Prodpoly-ResNet50"},
        seeds=1,
        medium_seeds=1,
    ),
    "imagenet_pinet18": Experiment(
        "ImageNet: Π-nets of ResNet18's size, with and without activations",
        {
            "imagenet_resnet18": "ResNet18",
            "imagenet_pinet18": "PiNet-18, no activation",
            "imagenet_pinet18_1x1": "PiNet-18 + 1x1, no activation",
            "imagenet_pinet18_relu": "PiNet-18 with ReLU",
            "imagenet_pinet18_1x1_relu": "PiNet-18 + 1x1 with ReLU",
        },
        seeds=1,
        medium_seeds=1,
    ),
    "faces": Experiment(
        "Face recognition (Tables 9 to 12)",
        {"ms1m_arcface_resnet50": "ResNet50", "ms1m_arcface_prodpoly_resnet50": "Prodpoly-ResNet50"},
        seeds=1,
        medium_seeds=3,
        picture="faces",
        medium_recipes={"lfw_iresnet": "IR-ResNet", "lfw_prodpoly_iresnet": "Prodpoly-IR-ResNet"},
    ),
    "coma": _shapes(
        "coma",
        "Faces as meshes (COMA)",
        medium=(*_BY_ORDER, "spiral_simple_2_linear", "spiral"),
    ),
    "dfaust": _shapes("dfaust", "Bodies as meshes (DFAUST)"),
    "motions": _shapes(
        "motions",
        "Bodies in motion",
        medium=COMPARED_MEDIUM,
    ),
    "motions_parameters": Experiment(
        "Bodies in motion: products or more parameters",
        _widened("model.encoder=3,22,44,88,176", "model.decoder=176,88,44,44,22,3"),
        seeds=1,
        small_seeds=2,
        medium_recipes=_widened("model.encoder=3,22,22,22,44", "model.decoder=44,44,22,22,3"),
    ),
    "motions_latent": Experiment(
        "Bodies in motion: codes of 8 and 32 numbers",
        {
            name: network
            for latent in (8, 32)
            for name, network in _changed((*_BY_ORDER, "spiral"), f"latent={latent}", f"{latent} numbers").items()
        },
        seeds=1,
        medium_seeds=1,
    ),
    "motions_longer": Experiment(
        "Bodies in motion: twice the epochs",
        _trained_for(600),
        seeds=1,
        medium_seeds=1,
        medium_recipes=_trained_for(80),
        small_recipes=_trained_for(20),
    ),
    "coma_operators": _operators("coma", "Faces as meshes: spirals and other operators"),
    "dfaust_operators": _operators("dfaust", "Bodies as meshes: spirals and other operators"),
    "motions_operators": _operators("motions", "Bodies in motion: spirals and other operators"),
    "polynomial": Experiment(
        "A strict polynomial on CIFAR-10 and its twin with ReLU",
        {"cifar10_polynomial": "polynomial", "cifar10_polynomial_relu": "with ReLU"},
        seeds=3,
    ),
    "fashion_polynomial": Experiment(
        "A strict polynomial on Fashion-MNIST and its twin with ReLU",
        {"fashion_polynomial": "polynomial", "fashion_polynomial_relu": "with ReLU"},
        seeds=3,
    ),
    "encrypted_mnist": Experiment(
        "CCPs for encrypted inference on MNIST, in the clear",
        {"mnist_ccp4": "CCP of order 4", "mnist_ccp8": "CCP of order 8"},
        seeds=3,
    ),
    "encrypted_fashion": Experiment(
        "CCPs for encrypted inference on Fashion-MNIST, in the clear",
        {"fashion_ccp4": "CCP of order 4", "fashion_ccp8": "CCP of order 8"},
        seeds=3,
    ),
}
