"""Recipes for data of one's own: what a folder holds decides their values."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pinets._nearest import did_you_mean
from pinets.data import DataError, MissingDataError, load
from pinets.data.formats.images import open_image
from pinets.data.sets.folders import read_image_folder
from pinets.engine.optimization import Adam, AdamW, OneCycle
from pinets.engine.recipe import Recipe
from pinets.engine.values import RecipeError
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model, Speech
from pinets.tasks.meshes.geometry.hierarchy import HierarchyPlan, cached_hierarchy
from pinets.tasks.meshes.recipe import PCA, AutoencodingRecipe, Shapes, Spiral

__all__ = ["OWN_DATA", "image_recipe", "mesh_recipe", "own_recipe", "sound_recipe"]

_UPDATES = 1000  # updates per run; the number of epochs follows from the number of samples
_MOST_EPOCHS = 100
_HEADERS = 500  # images whose size is looked at
_SIZES = (64, 32)  # sizes for images that differ in size: the larger one that most of them fill

_IMAGE_NETWORKS = {
    "strict": Model("strict_convnet"),
    "prodpoly": Model("prodpoly_resnet18_cifar", {"width": 16}),
    "resnet": Model("resnet18_cifar", {"width": 16}),
}
_SOUND_NETWORKS = {
    "strict": Model("strict_convnet", {"in_channels": 1}),
    "prodpoly": Model("prodpoly_resnet34_speech", {"width": 16}),
    "resnet": Model("resnet34_speech", {"width": 16}),
}
_MESH_NETWORKS: dict[str, Spiral | PCA] = {"ncp": Spiral("ncp", 3), "spiral": Spiral(), "pca": PCA()}


def own_recipe(kind: str, folder: str | Path, network: str | None = None) -> Recipe:
    """The recipe for a folder of images, sounds or meshes.

    Args:
        kind: ``"images"``, ``"sounds"`` or ``"meshes"``.
        folder: Holds the data; the recipe, and so its run folder, is named after it.
        network: Which network: for images and sounds ``"strict"`` (a polynomial of the input), ``"prodpoly"``
            (Prodpoly-ResNet) or ``"resnet"`` (its baseline); for meshes ``"ncp"``, ``"spiral"`` (its baseline) or
            ``"pca"``. The first if left out.
    """
    make, networks = OWN_DATA[kind]
    name = next(iter(networks)) if network is None else network
    if name not in networks:
        raise RecipeError(f"there is no network {name!r} for {kind}{did_you_mean(name, networks)}")
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder}")
    return make(folder, name)


def image_recipe(folder: Path, network: str = "strict") -> ClassificationRecipe:
    """Classes, size, channels and number of images are read from a folder with one folder per class."""
    splits = read_image_folder(folder)
    train = splits.train
    size = _image_size([path for part in (train, splits.validation, splits.test) for path in part.paths])
    return _classifier(
        folder,
        network,
        _IMAGE_NETWORKS[network].with_options(in_channels=train.channels),
        Images("labelled_pictures", classes=len(train.classes), crop=size // 8, size=size),
        len(train),
    )


def sound_recipe(folder: Path, network: str = "strict") -> ClassificationRecipe:
    """The classes are read from a folder with one folder of WAV or FLAC files per class."""
    train = load("sound_folder", folder).train
    data = Speech("sound_folder", classes=len(train.classes))
    return _classifier(folder, network, _SOUND_NETWORKS[network], data, len(train))


def mesh_recipe(folder: Path, network: str = "ncp") -> AutoencodingRecipe:
    """Vertices and spirals are read from ``train/`` and ``test/`` with one mesh file per shape, all of one topology."""
    if missing := [name for name in ("train", "test") if not (folder / name).is_dir()]:
        raise MissingDataError(f"{folder} has no folder {missing[0]}: train and test hold one mesh file for each shape")
    train = load("mesh_folder", folder).train
    vertices = len(train.template.vertices)
    plan = HierarchyPlan(factors=_mesh_factors(vertices))
    hierarchy, _ = cached_hierarchy(train.template, plan)
    batch = _batch(len(train), most=16)
    return AutoencodingRecipe(
        name=_name(folder, network),
        model=_MESH_NETWORKS[network],
        data=Shapes("mesh_folder", vertices=vertices),
        hierarchy=HierarchyPlan(factors=plan.factors, lengths=hierarchy.lengths),
        latent=min(16, len(train)),
        optimizer=Adam(lr=3e-3),
        schedule=OneCycle(rise=0.1, start=0.1, end=0.0),
        clip=1.0,
        epochs=_epochs(len(train), batch),
        batch=batch,
    )


def _classifier(folder: Path, network: str, model: Model, data: Images | Speech, count: int) -> ClassificationRecipe:
    if data.classes < 2:
        raise DataError(f"{folder} has {data.classes} class: a classifier needs a folder for each of 2 or more")
    batch = _batch(count, most=64)
    return ClassificationRecipe(
        name=_name(folder, network),
        model=model,
        data=data,
        optimizer=AdamW(lr=2e-3, weight_decay=0.05),
        schedule=OneCycle(rise=0.2, start=0.1, end=0.0),
        epochs=_epochs(count, batch),
        batch=batch,
        label_smoothing=0.1,
        clip=1.0,  # a polynomial has gradients without bound
    )


def _name(folder: Path, network: str) -> str:
    """The name of the run folder: that of the data, and of the network."""
    name = re.sub(r"[^\w.+-]+", "_", folder.resolve().name).strip(".") or "data"
    return f"{name}-{network}"


def _batch(samples: int, *, most: int) -> int:
    """A power of two, so small that an epoch has at least four batches; at least 2, which batch norm needs."""
    return max(2, min(most, 1 << max(0, (samples // 4).bit_length() - 1)))


def _epochs(samples: int, batch: int) -> int:
    return max(1, min(_MOST_EPOCHS, round(_UPDATES * batch / samples)))


def _image_size(paths: list[str]) -> int:
    """The images' own size if all are squares of one size up to 64; else the larger of two that half of them fill."""
    step = max(1, len(paths) // _HEADERS)
    sides = set()
    shorter = []
    for path in paths[::step]:
        with open_image(Path(path), path) as image:
            sides.add(image.size)
            shorter.append(min(image.size))
    (width, height), *others = sides
    if not others and width == height <= max(_SIZES):
        return int(width)
    typical = statistics.median(shorter)
    return next((size for size in _SIZES if size <= typical), min(_SIZES))


def _mesh_factors(vertices: int) -> tuple[int, ...]:
    """Four levels below the template, the last with some ten vertices or more."""
    if vertices >= 4000:
        return (4, 4, 4, 4)
    if vertices >= 600:
        return (4, 4, 2, 2)
    if vertices >= 150:
        return (2, 2, 2, 2)
    raise DataError(f"shapes must have at least 150 vertices, got {vertices}")


# by kind: what makes the recipe, and the networks there are
OWN_DATA: Mapping[str, tuple[Callable[[Path, str], Recipe], Mapping[str, Any]]] = {
    "images": (image_recipe, _IMAGE_NETWORKS),
    "sounds": (sound_recipe, _SOUND_NETWORKS),
    "meshes": (mesh_recipe, _MESH_NETWORKS),
}
