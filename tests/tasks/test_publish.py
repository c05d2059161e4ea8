from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import torch

from pinets import tasks as recipes
from pinets.cli import main
from pinets.models import load_weights, read_card
from pinets.tasks.classification.stress import DAMAGES, stress
from pinets.tasks.publish import publish, training_command

TINY = ["model.widths=4,4", "epochs=1", "batch=20", "precision=no", "channels_last=no"]


@pytest.fixture
def run(cifar, tmp_path):
    recipe = recipes.get_recipe("cifar10_strict", "small", TINY)
    recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    return recipes.run_folder(recipe, tmp_path / "runs").path


def test_a_run_becomes_weights_with_a_card_that_are_then_stressed(run, cifar, tmp_path, capsys, monkeypatch):
    written = publish(run, "colours", tmp_path / "out")
    network, card = load_weights(tmp_path / "out" / "colours.safetensors")
    assert card == written
    assert (tmp_path / "out" / "colours.md").read_text() == card.markdown()
    assert "widths=[4, 4]" in card.expression
    assert card.degree == "4"
    assert card.classes == tuple("abcdefghij")
    assert card.command.startswith("pinets train cifar10_strict --scale small --set")
    assert "--set model.widths=4,4" in card.command
    inputs, labels = recipes.recipe_from_json(card.recipe).load(cifar).read("test", 50)
    accuracy = float((network(inputs).argmax(1) == labels).double().mean())
    assert card.metrics["accuracy"] == pytest.approx(accuracy)
    monkeypatch.setenv("PINETS_WEIGHTS", str(tmp_path / "out"))
    capsys.readouterr()
    assert main(["stress", "colours", "--data", str(cifar), "--images", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(DAMAGES)
    assert lines[1].split()[:2] == ["none", "20"]


def test_bad_names_and_unfinished_runs_write_nothing(run, tmp_path, capsys):
    assert main(["publish", str(run), "no name", "--to", str(tmp_path / "out")]) == 1
    (run / "result.json").unlink()
    assert main(["publish", str(run), "name", "--to", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "must be a Python identifier, got 'no name'; nothing was written" in told
    assert "is not a finished run" in told
    assert not (tmp_path / "out").exists()


def test_the_ratio_is_to_the_median_of_undamaged_images():
    pixels = torch.zeros(5, 1, 8, 8, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.tensor([10, 20, 30, 40, 255])
    network = torch.nn.Flatten()  # outputs are pixels
    rows = {row.damage: row for row in stress(network, pixels, torch.zeros(5).long(), lambda x: x)}
    assert rows["none"].largest == 255
    assert rows["none"].ratio == pytest.approx(255 / 30)
    assert rows["out of range"].largest == pytest.approx(1.5 * 255)
    assert rows["out of range"].beyond == 1
    assert rows["none"].accuracy == 1


def test_the_gradient_finds_the_largest_output_between_black_and_white():
    pixels = torch.randint(100, 156, (80, 1, 8, 8), dtype=torch.uint8)
    weight = torch.randn(3, 64)
    rows = stress(lambda x: x.flatten(1) @ weight.T, pixels, torch.zeros(80).long(), lambda x: x / 255)
    positive, negative = weight.clamp(min=0).sum(1), (-weight).clamp(min=0).sum(1)
    assert rows[-1].damage == "sought by gradient"
    assert rows[-1].images == 64
    assert rows[-1].largest == pytest.approx(float(torch.maximum(positive, negative).max()), rel=1e-4)


def test_outputs_that_are_no_numbers_count_as_infinite():
    pixels = torch.full((2, 1, 8, 8), 128, dtype=torch.uint8)
    rows = stress(torch.nn.Flatten(), pixels, torch.zeros(2).long(), lambda x: torch.where(x > 130, torch.nan, x))
    assert rows[0].ratio == 1
    assert {row.damage for row in rows if row.ratio == float("inf")} >= {"brighter", "out of range"}


def test_cards_say_how_they_are_read():
    card = read_card("mnist_ccp4")
    assert card.metrics["accuracy"] > 0.98
    assert f"| trained with | `{card.command}` |" in card.markdown()
    assert "trained with" not in replace(card, command="").markdown()  # on data of one's own


@pytest.mark.parametrize(
    "changes",
    [
        ["optimizer=AdamW", "optimizer.lr=0.003"],
        ["schedule=LinearDecay", "epochs=3"],
        ["range_penalty=none", "compile=true"],
        ["teacher.run=runs/a teacher/seed-0", "teacher.weight=0.5", "model.widths=4,8"],
        ["robust=Certified", "robust.eps=0.1", "robust.linear=no"],
    ],
    ids=lambda changes: changes[0],
)
def test_the_command_of_a_card_makes_the_same_recipe(changes):
    recipe = recipes.get_recipe("cifar10_strict", "medium", changes)
    words = shlex.split(training_command(recipe))
    assert words[:5] == ["pinets", "train", "cifar10_strict", "--scale", "medium"]
    assert recipes.get_recipe("cifar10_strict", "medium", words[6::2]) == recipe


def test_weights_are_not_named_as_a_model_is(run, tmp_path):
    with pytest.raises(ValueError, match="strict_convnet is the name of a model"):
        publish(run, "strict_convnet", tmp_path / "out")
