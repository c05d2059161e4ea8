"""Recipes on images of one's own."""

from __future__ import annotations

import pytest
import torch

from pinets import tasks as recipes
from pinets.data import RandomFlip
from pinets.data.formats.images import encode_png

TINY = ["model.width=8", "channels_last=no", "optimizer.lr=0.05"]


@pytest.fixture
def folder(tmp_path):
    """Your own images: two classes of 32x32, all of one colour each."""
    for name, level in (("dark", 40), ("light", 200)):
        for number in range(20):
            image = torch.full((3, 32, 32), level + number, dtype=torch.uint8)
            path = tmp_path / "images" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_png(image))
    return tmp_path / "images"


OWN = ["data.name=image_folder", "data.classes=2", "data.validation=0.2"]


def test_your_own_images_are_trained_at_the_size_that_is_set(folder, tmp_path):
    recipe = recipes.get_recipe("cifar10_resnet18", "small", [*TINY, *OWN, "data.size=32", "epochs=1", "batch=5"])
    inputs = recipe.data.load(folder)
    images = inputs.splits.train.read(torch.arange(2), torch.rand(2, inputs.splits.train.draws))
    assert images.shape == (2, 3, 32, 32)
    assert inputs.augment.draws == RandomFlip().draws  # no second crop after that of the decoder
    assert "accuracy" in recipes.train(recipe, tmp_path / "runs", data_dir=folder)["test"]


def test_grey_images_train_a_network_of_one_channel(tmp_path):
    for name, level in (("dark", 40), ("light", 200)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(20):
            image = encode_png(torch.full((1, 32, 32), level + number, dtype=torch.uint8))
            (tmp_path / "images" / name / f"{number}.png").write_bytes(image)
    changes = [*TINY, *OWN, "data.size=32", "epochs=1", "batch=5"]
    with pytest.raises(ValueError, match=r"of shape \(1, 32, 32\).* \(model\.in_channels=1 makes a network for grey"):
        recipes.train(recipes.get_recipe("cifar10_resnet18", "small", changes), tmp_path, data_dir=tmp_path / "images")
    recipe = recipes.get_recipe("cifar10_resnet18", "small", [*changes, "model.in_channels=1"])
    assert "accuracy" in recipes.train(recipe, tmp_path, data_dir=tmp_path / "images")["test"]
    assert recipe.describe_inputs(tmp_path / "images").shape == (1, 32, 32)


def test_a_size_that_was_not_set_is_told(folder):
    data = recipes.get_recipe("cifar10_resnet18", "small", OWN).data
    with pytest.warns(UserWarning, match=r"data\.size is not set: the images of image_folder become 224x224"):
        data.load(folder)


def test_a_set_of_one_size_takes_no_other():
    with pytest.raises(recipes.RecipeError, match=r"data\.size: the images of cifar10 have a size of their own"):
        recipes.get_recipe("cifar10_resnet18", "full", ["data.size=64"])
    with pytest.raises(recipes.RecipeError, match=r"data\.size: size must be at least 1, got 0"):
        recipes.get_recipe("imagenet_resnet50", "full", ["data.size=0"])
