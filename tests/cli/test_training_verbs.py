"""train, eval, compare, list, show and report, as typed on a command line."""

from __future__ import annotations

import json

import pytest

from pinets.cli import main
from pinets.data import load
from pinets.tasks import list_recipes


def test_list_shows_every_recipe(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list_recipes()


@pytest.mark.parametrize("what, known", [("data", "speech_commands"), ("models", "prodpoly_resnet18_cifar")])
def test_list_models_and_data(capsys, what, known):
    assert main(["list", what]) == 0
    assert known in {line.split()[0] for line in capsys.readouterr().out.splitlines()}


def test_show_gives_notes_values_and_size(capsys):
    assert main(["show", "cifar10_prodpoly_resnet18"]) == 0
    shown = capsys.readouterr().out
    assert "Paper: accuracy 0.945" in shown
    assert '"lr": 0.1' in shown
    assert "6,009,936 parameters" in shown


def test_show_draws_a_polynomial(capsys, tmp_path):
    assert main(["show", "CCP(4, 2, rank=3, order=2)", "--diagram", str(tmp_path / "ccp.svg")]) == 0
    assert (tmp_path / "ccp.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "drawn to" in capsys.readouterr().out
    assert main(["show", "cifar10_resnet18", "--diagram", str(tmp_path / "no.svg")]) == 2
    assert "cifar10_resnet18 is a recipe" in capsys.readouterr().err


def test_show_answers_an_unknown_name_with_the_nearest(capsys):
    assert main(["show", "cifar10_resnet_18"]) == 2
    assert "did you mean 'cifar10_resnet18'?" in capsys.readouterr().err


def test_dry_run_writes_nothing(capsys, tmp_path):
    command = [
        "train",
        "cifar10_resnet18",
        "--scale",
        "small",
        "--set",
        "optimizer.lr=0.05",
        "--seeds",
        "2",
        "--dry-run",
    ]
    assert main([*command, "--out", str(tmp_path / "runs")]) == 0
    shown = capsys.readouterr().out
    values = json.loads(shown[: shown.index("\n}") + 2])
    assert (values["optimizer"]["lr"], values["scale"]) == (0.05, "small")
    assert "cifar10_resnet18-small/seed-1" in shown
    assert not (tmp_path / "runs").exists()


def test_a_recipe_that_is_a_value_in_a_file_has_variants_too(capsys, tmp_path):
    file = tmp_path / "values_in_a_file.py"
    file.write_text("from pinets.tasks import get_recipe\nmine = get_recipe('cifar10_resnet18', 'small')\n")
    assert main(["train", f"{file}:mine:epochs=2", "--set", "batch=10", "--dry-run", "--data", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    values = json.loads(shown[: shown.index("\n}") + 2])
    assert (values["name"], values["epochs"], values["batch"]) == ("cifar10_resnet18-epochs=2", 2, 10)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["train", "cifar10_resnet19"], "did you mean 'cifar10_resnet18'?"),
        (["train", "cifar10_resnet18", "--set", "optimizer.lrr=1"], "did you mean 'optimizer.lr'?"),
        (["train", "cifar10_resnet18", "--set", "epochs=many"], "epochs must be a whole number, got 'many'"),
        (["train", "cifar10_resnet18", "--scale", "tiny"], "tiny"),
        (["train", "cifar10_resnet18", "--set", "scale=small"], "not changed alone (--scale)"),
        (["train", "cifar10_resnet18", "--set", "name=cifar10_resnet34"], "'cifar10_resnet34' is another recipe"),
        (["train", "cifar10_resnet18", "--set", "name=../x"], "must have no slash"),
        (["train", "cifar10_resnet18", "--set", "name=a\\b"], "must have no slash"),
        (["train", "cifar10_resnet18", "--set", "name=.x"], "no leading dot, got '.x'"),
        (["train", "cifar10_resnet18", "--set", "seed=4", "--seeds", "3"], "--seeds 3 stands for seeds 0 to 2"),
        (["compare", "cifar10_resnet18", "cifar10_resnet34", "--seeds", "0"], "expected a whole number from 1 on"),
        (["sample", "fashion_ncp", "--seed", str(2**64)], f"--seed must have at most 64 bits, got {2**64}"),
    ],
)
def test_wrong_usage_is_told_and_has_code_2(capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_what_to_put_where_has_a_line_for_each_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("pinets.tasks.train", lambda *_, **__: load("mnist", tmp_path, download=False))
    assert main(["train", "mnist_ccp4", "--scale", "small", "--out", str(tmp_path / "runs")]) == 1
    first, *lines, last = capsys.readouterr().err.splitlines()
    assert first == f"pinets train: mnist is not in {tmp_path} (downloading was not allowed)"
    assert lines[0] == f"  put these files into {tmp_path / 'mnist'}:"
    assert [line.partition("(md5:")[0][-8:] for line in lines[1:]] == ["byte.gz "] * 4
    assert last.endswith("PINETS_DATA (--data)")


def test_missing_runs_are_named_and_have_code_1(capsys, tmp_path):
    assert main(["eval", str(tmp_path / "gone")]) == 1
    assert "gone is not a run" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    assert "there is no run in" in capsys.readouterr().err


def test_an_interpolation_of_shapes_has_two_ends(capsys):
    assert main(["sample", "interpolate", "run", "--index", "0,1", "--steps", "1"]) == 2
    assert "--steps: an interpolation has at least its 2 ends, got 1" in capsys.readouterr().err
