"""Images from trained generators."""

from __future__ import annotations

import shutil

import pytest
import torch
from PIL import Image

from pinets import tasks as recipes
from pinets.cli import main
from pinets.tasks import generation
from pinets.tasks.publish import publish


def test_truncation_and_interpolation(run):
    average = generation.sample(run, 3, truncation=0.0)
    assert torch.equal(average[0], average[1])
    for wrong in (generation.sample, generation.measure):
        with pytest.raises(ValueError, match="truncation must lie between 0 and 1, got 2"):
            wrong(run, truncation=2)
    ways = generation.interpolate(run, rows=2, steps=5, seed=7).view(2, 5, 1, 32, 32).float()
    ends = generation.sample(run, 4, seed=7).float()
    assert (ways[:, 0] - ends[:2]).abs().max() <= 1
    assert (ways[:, -1] - ends[2:]).abs().max() <= 1


def test_the_degrees_of_a_polynomial_add_up_to_the_sample(run, tmp_path, capsys):
    images = generation.sample_degrees(run, 3, seed=5)
    assert images.shape == (3, 7, 1, 32, 32)  # order 6, and the constant
    sample = generation.sample(run, 3, seed=5)
    assert (images[:, -1].int() - sample.int()).abs().max() <= 1
    assert images[0, 0].equal(images[1, 0])  # the constant does not depend on the noise
    assert main(["sample", str(run), "--degrees", "--n", "2", "--grid", str(tmp_path / "degrees.png")]) == 0
    with Image.open(tmp_path / "degrees.png") as figure:
        assert figure.width > 2 * figure.height  # two rows of seven
    assert main(["sample", str(run), "--degrees", "--real"]) == 2
    assert "--degrees takes one run" in capsys.readouterr().err


def test_samples_of_stylegan_too_depend_on_the_seed_alone(fashion, tmp_path):
    """Its noise inputs are random as well; on the way between two points they stay."""
    values = ["size=32", "base=64", "most=4", "latent=8", "channels=1"]
    changes = [f"model.{value}" for value in values] + [f"discriminator.{v}" for v in values if "latent" not in v]
    changes += ["data.name=fashion_mnist", "data.size=none", "data.pad=2", "epochs=1", "steps_per_epoch=1"]
    changes += ["batch=4", "generator_batch=4", "metric=none", "optimizer.lr=0.1"]  # so that noise counts
    made = recipes.get_recipe("ffhq256_stylegan", "small", changes)
    recipes.train(made, tmp_path, data_dir=fashion)
    run = recipes.run_folder(made, tmp_path).path
    state = torch.get_rng_state()
    assert torch.equal(generation.sample(run, 3), generation.sample(run, 3))
    assert torch.equal(generation.sample(run, 3), generation.sample(run, 10)[:3])
    assert torch.equal(torch.cat([*generation.sample_batches(run, 70)])[:64], generation.sample(run, 64))
    ways = generation.interpolate(run, rows=1, steps=3, truncation=0.0)
    assert torch.equal(ways[0], ways[1])
    assert torch.equal(torch.get_rng_state(), state)


def test_the_command_writes_a_grid_a_folder_and_a_figure(run, fashion, tmp_path, capsys):
    grid, folder, figure = tmp_path / "out.png", tmp_path / "images", tmp_path / "figure.png"
    assert main(["sample", str(run), "--n", "4", "--grid", str(grid), "--seed", "0"]) == 0
    with Image.open(grid) as image:
        assert image.size == (132, 132)  # two by two and two pixels between, all twice as large
    assert main(["sample", str(run), "--interpolate", "--n", "12", "--grid", str(grid)]) == 0
    with Image.open(grid) as image:
        shown = image.crop((68, 136, 132, 200)).resize((32, 32), Image.Resampling.NEAREST)  # third row, second column
        assert shown.tobytes() == bytes(generation.interpolate(run, rows=4, steps=3)[7].flatten().tolist())
    assert main(["sample", str(run), "--n", "70", "--folder", str(folder)]) == 0  # more than are made at a time
    for path, image in zip(sorted(folder.iterdir()), generation.sample(run, 70), strict=True):
        with Image.open(path) as file:
            assert bytes(image.flatten().tolist()) == file.tobytes()
    assert main(["sample", str(run), "--n", "3", "--folder", str(folder)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["sample", str(run), "--real", "--data", str(fashion), "--n", "4", "--grid", str(figure)]) == 0
    with Image.open(figure) as image:
        assert (width := image.size[0]) > 1.5 * image.size[1]
    shutil.copytree(run, run.parent / "seed-1")
    words = [str(run), str(run.parent / "seed-1"), "--real", "--data", str(fashion), "--n", "4"]
    assert main(["sample", *words, "--grid", str(figure)]) == 0
    with Image.open(figure) as image:
        assert image.size[0] > 1.4 * width  # a panel for each, though the recipe is one


def test_published_weights_are_sampled_by_name(run, tmp_path, monkeypatch, capsys):
    publish(run, "clothes", tmp_path / "out")
    monkeypatch.setenv("PINETS_WEIGHTS", str(tmp_path / "out"))
    assert main(["sample", "clothes", "--degrees", "--n", "2", "--grid", str(tmp_path / "b.png")]) == 0
    difference = generation.sample("clothes", 4).int() - generation.sample(run, 4).int()
    assert difference.abs().max() <= 3  # stored in half precision
    assert main(["sample", "mnist_ccp4"]) == main(["sample", "clohtes"]) == 1
    assert "neither a run folder nor the name of trained weights; did you mean 'clothes'" in capsys.readouterr().err


def test_wrong_runs_and_usage_are_told(run, cifar, tmp_path, capsys):
    assert main(["sample", str(tmp_path / "gone")]) == 1
    assert "gone is not a run" in capsys.readouterr().err
    assert main(["sample", str(run), "--truncation", "3"]) == 2
    assert "--truncation: must lie between 0 and 1, got 3" in capsys.readouterr().err
    assert main(["sample", str(run), str(run), "--folder", str(tmp_path / "x")]) == 2
    classifier = recipes.get_recipe(
        "cifar10_resnet18", "small", ["model.width=8", "channels_last=no", "epochs=1", "batch=20"]
    )
    recipes.train(classifier, tmp_path / "other", data_dir=cifar)
    assert main(["sample", str(recipes.run_folder(classifier, tmp_path / "other").path)]) == 1
    assert "it has no generator to sample from" in capsys.readouterr().err
