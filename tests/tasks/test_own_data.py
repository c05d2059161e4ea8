"""Recipes for one's own folders, and recipes from one's own files."""

from __future__ import annotations

import json
import math
import shutil
import sys

import pytest
import torch

from pinets import tasks
from pinets.cli import main
from pinets.data import load
from pinets.data.formats.images import encode_png
from pinets.engine import recipe
from pinets.prediction import predict
from pinets.tasks.own_data import own_recipe

pytest.importorskip("PIL")


def make_images(folder, *, channels=3, size=(20, 20), count=20):
    """Two classes: light above dark, and dark above light."""
    generator = torch.Generator().manual_seed(0)
    for name in ("light above", "dark above"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = torch.randint(0, 60, (channels, *size), generator=generator)
            half = image[:, : size[0] // 2] if name == "light above" else image[:, size[0] // 2 :]
            half += 150
            (folder / name / f"{number}.png").write_bytes(encode_png(image.to(torch.uint8)))
    return folder


def test_values_are_read_from_the_folder(tmp_path):
    made = own_recipe("images", make_images(tmp_path / "my photos", channels=1, size=(20, 20)))
    assert made.name == "my_photos-strict"
    assert (made.data.classes, made.data.size, made.model.options["in_channels"]) == (2, 20, 1)
    other = own_recipe("images", make_images(tmp_path / "large", size=(80, 100)), "resnet")
    assert (other.name, other.data.size, other.model.options["in_channels"]) == ("large-resnet", 64, 3)
    small = own_recipe("images", make_images(tmp_path / "small", size=(10, 12)))
    assert small.data.size == 32


def test_images_are_trained_on_and_predicted(tmp_path, capsys):
    folder = make_images(tmp_path / "halves")
    words = ["train", "images", "--data", str(folder), "--out", str(tmp_path / "runs")]
    words += ["--set", "epochs=6", "--set", "model.widths=8,16", "--set", "data.flip=no"]
    assert main([*words, "--dry-run"]) == 0
    assert not (tmp_path / "runs").exists()
    assert main(words) == 0
    run = tmp_path / "runs" / "halves-strict" / "seed-0"
    assert (run / "report.html").is_file()
    found = predict(run, [folder / "light above", folder / "dark above"])
    right = [one.best()[0][0] == one.source.split("/")[-2] for one in found]
    assert sum(right) / len(right) > 0.9
    assert main(["train", "images", "--data", str(folder), "--out", str(tmp_path / "runs"), *words[6:]]) == 1
    assert "already holds a run" in capsys.readouterr().err


def test_a_dry_run_names_everything_that_does_not_fit(tmp_path, capsys):
    words = ["train", "images", "--data", str(make_images(tmp_path / "halves")), "--dry-run"]
    assert main([*words, "--set", "data.classes=5", "--set", "model.in_channels=1"]) == 1
    error = capsys.readouterr().err
    assert "data.classes is 5, but labelled_pictures has 2 classes" in error
    assert "the network does not take inputs of shape (3, 20, 20)" in error


@pytest.mark.parametrize(
    "words, message",
    [
        (["image", "--data", "."], "there is no recipe 'image'; did you mean 'images'?"),
        (["imagse", "--data", "."], "there is no recipe 'imagse'; did you mean 'images'?"),
        (["nothing-like-it"], "there is no recipe 'nothing-like-it'; pinets list recipes names them all"),
        (["mine.py"], "name one, as mine.py:my_recipe"),
        (["images", "--data", "gone"], "there is no folder gone"),
        (["images", "--data", ".", "--network", "strikt"], "did you mean 'strict'?"),
        (["images", "--data", "."], "has no folders: there must be one for each class"),
        (["sounds", "--data", "."], "has no folders: there must be one for each class"),
        (["meshes", "--data", "."], "has no folder train: train and test hold one mesh file for each shape"),
    ],
)
def test_a_folder_that_cannot_be_used_is_wrong_usage(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def write_tone(path, frequency, *, rate=22_050, channels=2, seconds=1.5):
    soundfile = pytest.importorskip("soundfile")
    time = torch.arange(int(rate * seconds)) / rate
    loud = (time > 0.4).float()  # silence first: the loudest second is kept
    wave = (0.5 * loud * torch.sin(2 * math.pi * frequency * time))[:, None].expand(-1, channels)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, wave.numpy(), rate, subtype="PCM_16")


def test_sounds_of_any_rate_become_clips_of_their_loudest_second(tmp_path):
    for name, frequency in (("high", 2000.0), ("low", 300.0)):
        for number in range(5):
            write_tone(tmp_path / "tones" / name / f"{number}.wav", frequency + 5 * number)
    made = own_recipe("sounds", tmp_path / "tones")
    assert (made.name, made.data.classes) == ("tones-strict", 2)
    clips = load("sound_folder", tmp_path / "tones").train
    assert clips.clips.shape[1] == 16_000
    peaks = torch.fft.rfft(clips.clips.double()).abs().argmax(dim=1)  # one second: the index is the frequency
    expected = torch.where(clips.labels == clips.classes.index("high"), 2000, 300)
    assert ((peaks - expected).abs() <= 25).all()


@pytest.mark.parametrize("parts, sizes", [(("val",), [3, 1, 2]), (("val", "test"), [4, 2, 2])])
def test_sounds_in_folders_of_their_own_are_used(tmp_path, parts, sizes):
    """As for images: a single folder beside train/ is the test set, whatever its name."""
    for part, count in (("train", 4), *((part, 2) for part in parts)):
        for number in range(count):
            write_tone(tmp_path / part / "high" / f"{number}.wav", 2000.0)
    splits = load("sound_folder", tmp_path)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == sizes


def test_meshes_are_described_by_their_template_and_trained(tmp_path, monkeypatch):
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("fast_simplification")
    ball = trimesh.creation.icosphere(subdivisions=3)
    for part, count in (("train", 4), ("test", 2)):
        (tmp_path / "balls" / part).mkdir(parents=True)
        for number in range(count):
            scaled = trimesh.Trimesh(ball.vertices * (1 + 0.1 * number), ball.faces, process=False)
            scaled.export(tmp_path / "balls" / part / f"{number}.ply")
    made = own_recipe("meshes", tmp_path / "balls")
    assert (made.name, made.data.vertices, len(made.hierarchy.lengths)) == ("balls-ncp", 642, 5)
    monkeypatch.setenv("PINETS_CACHE", str(tmp_path / "cache"))
    words = ["train", "meshes", "--data", str(tmp_path / "balls"), "--out", str(tmp_path / "runs")]
    assert main([*words, "--network", "spiral", "--set", "epochs=2"]) == 0
    report = (tmp_path / "runs" / "balls-spiral" / "seed-0" / "report.html").read_text()
    assert "Errors of the test shapes" in report


@pytest.mark.parametrize("task", [False, True])
def test_the_written_recipe_is_understood(tmp_path, monkeypatch, capsys, task):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(recipe, "_MAKERS", dict(recipe._MAKERS))
    name = "own_task.py" if task else "own_recipe.py"
    assert main(["init", name, *(["--task"] if task else [])]) == 0
    assert main(["init", name]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["train", f"{name}:my_recipe", "--dry-run", "--set", "epochs=2", "--data", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert '"epochs": 2' in shown.out
    assert main(["train", f"{name}:my_recip"]) == 2
    assert "did you mean 'my_recipe'?" in capsys.readouterr().err
    if task:
        assert main(["train", f"{name}:my_recipe", "--set", "epochs=25", "--set", "data.samples=1000"]) == 0
        result = tasks.run_folder(tasks.get_recipe("my_recipe"), "runs").result()
        assert result["test"]["squared_error"] < 0.05  # of a variance of about 0.6
        capsys.readouterr()
        assert main(["eval", "runs/my_recipe/seed-0", "--code", name]) == 0
        assert json.loads(capsys.readouterr().out)["test"] == result["test"]


def test_a_file_name_that_python_cannot_import_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my-experiment.py"]) == 2
    assert main(["init", "my_experiment.txt"]) == 2
    assert not list(tmp_path.iterdir())


def test_a_single_class_is_refused(tmp_path, capsys):
    folder = make_images(tmp_path / "halves", count=5)
    shutil.rmtree(folder / "dark above")
    assert main(["train", "images", "--data", str(folder)]) == 2
    assert "halves has 1 class: a classifier needs a folder for each of 2 or more" in capsys.readouterr().err


def test_the_smallest_set_there_can_be_is_trained_on(tmp_path):
    """Two training images: in batches of one image, batch norm would have nothing to average over."""
    folder = make_images(tmp_path / "few", count=3, size=(8, 8))
    words = ["train", "images", "--data", str(folder), "--out", str(tmp_path / "runs")]
    assert main([*words, "--set", "epochs=1"]) == 0
