"""A run knows what it was trained on: other data are noticed, and its own are found again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch

from pinets import resolve
from pinets import tasks as recipes
from pinets.cli import main
from pinets.data import MissingDataError
from pinets.data.formats.images import encode_png
from pinets.engine.trained import TrainedRun

OWN = [
    *("data.name=image_folder", "data.classes=2", "data.validation=0.2", "data.size=32", "data.flip=no"),
    *("model.width=4", "model.depths=1,1", "channels_last=no", "epochs=2", "batch=5", "checkpoint_every=1"),
]


@pytest.fixture
def folder(tmp_path):
    """Two classes of 32x32 images, each in a file of its own."""
    for name, level in (("cats", 40), ("dogs", 200)):
        for number in range(20):
            path = tmp_path / "images" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_png(torch.full((3, 32, 32), level + number, dtype=torch.uint8)))
    return tmp_path / "images"


@pytest.fixture
def recipe():
    return recipes.get_recipe("cifar10_resnet18", "small", OWN)


@pytest.fixture
def run(recipe, folder, tmp_path):
    recipes.train(recipe, tmp_path / "runs", data_dir=folder)
    return recipes.run_folder(recipe, tmp_path / "runs")


def test_the_names_of_the_classes_are_written_down(run, folder):
    known = json.loads(run.data_file.read_text())
    assert known["classes"] == ["cats", "dogs"]
    assert known["folder"] == str(folder)


def test_other_classes_are_refused_when_a_run_is_evaluated_or_used(run, folder, tmp_path):
    (folder / "cats").rename(folder / "zebras")  # now the second in the order of the names
    with pytest.raises(ValueError, match="trained on other data: classes have 'dogs' where the run knows 'cats'"):
        recipes.evaluate(run.path, data_dir=folder)
    with pytest.raises(ValueError, match="trained on other data"):
        _ = TrainedRun(run.path, folder).data
    assert resolve(run.path, data_dir=folder).classes == ("cats", "dogs")  # as the run noted them


def test_other_samples_are_told_when_a_run_is_evaluated_or_used(run, folder):
    learnt = set(TrainedRun(run.path).data.train.paths)  # without a warning
    for number in range(6):
        shutil.copy(folder / "cats" / "0.png", folder / "cats" / f"0{number}.png")
    with pytest.warns(UserWarning, match="trained on other samples .* may be among the test samples"):
        data = TrainedRun(run.path).data
    assert learnt & set(data.splits.test.paths)
    with pytest.warns(UserWarning, match="trained on other samples"):
        recipes.evaluate(run.path)


def test_the_data_are_found_where_they_were(run, folder, tmp_path, monkeypatch):
    expected = recipes.evaluate(run.path, data_dir=folder)
    monkeypatch.setenv("PINETS_DATA", str(tmp_path / "elsewhere"))
    assert recipes.evaluate(run.path) == expected
    assert resolve(run.path).classes == ("cats", "dogs")
    shutil.rmtree(folder)
    with pytest.raises(MissingDataError, match="elsewhere"):
        recipes.evaluate(run.path)


def test_a_run_does_not_go_on_with_other_data(recipe, run, folder, tmp_path):
    run.result_file.unlink()  # as if it had been interrupted before its end
    swapped = tmp_path / "swapped"
    shutil.copytree(folder / "cats", swapped / "dogs")
    shutil.copytree(folder / "dogs", swapped / "cats")
    with pytest.raises(ValueError, match="was started with other data: other images or labels"):
        recipes.train(recipe, tmp_path / "runs", data_dir=swapped, resume=True)
    (swapped / "cats" / "0.png").unlink()
    with pytest.raises(ValueError, match=r"was started with other data: samples were \d+ and are now \d+"):
        recipes.train(recipe, tmp_path / "runs", data_dir=swapped, resume=True)
    recipes.train(recipe, tmp_path / "runs", resume=True)  # finds its own


def test_a_run_from_before_data_were_written_down_goes_on(recipe, run, folder, tmp_path):
    run.data_file.unlink()
    run.result_file.unlink()
    assert recipes.train(recipe, tmp_path / "runs", data_dir=folder, resume=True)
    assert recipes.evaluate(run.path, data_dir=folder)


def test_nothing_to_go_on_with_is_told(folder, tmp_path, capsys):
    settings = [word for value in OWN for word in ("--set", value)]
    out = str(tmp_path / "mistyped")
    assert (
        main(
            [
                "train",
                "cifar10_resnet18",
                "--scale",
                "small",
                *settings,
                "--data",
                str(folder),
                "--out",
                out,
                "--resume",
            ]
        )
        == 0
    )
    assert "has nothing to resume: the run starts anew" in capsys.readouterr().err


def test_where_data_lie_is_no_matter(recipe, run, folder, tmp_path):
    run.result_file.unlink()
    folder.rename(tmp_path / "moved")
    assert recipes.train(replace(recipe), tmp_path / "runs", data_dir=tmp_path / "moved", resume=True)
