"""The paper's tables and figures as commands."""

from __future__ import annotations

import json
import shutil

import pytest

from pinets import tasks as recipes
from pinets.cli import main
from pinets.engine.run import ChangedRecipeError
from pinets.report import group_runs, summarize
from pinets.tasks.experiments import EXPERIMENTS, get_experiment
from pinets.tasks.reproduction import experiments_at, papers_figure, reproduce, scale_changes

TINY = ["model.width=8", "channels_last=no", "epochs=1", "batch=50", "log_every=1"]


def test_the_papers_figures_are_those_of_its_tables():
    assert papers_figure("cifar10_prodpoly_resnet18") == "accuracy 0.945 ± 0.001, 6.0 M parameters"
    assert papers_figure("cifar10_sngan_ncp").startswith("IS 8.30 ± 0.09, FID 17.65 ± 0.76")


def test_what_scale_changes_is_told():
    told = scale_changes("cifar10_resnet18", "small", ["clip=2"])
    assert "`epochs`: 120 → 5" in told
    assert "`clip`: none → 2.0" in told
    assert not any("name" in line or "log_every" in line for line in told)
    assert scale_changes("cifar10_resnet18", "full") == []
    assert not any("momentum" in line for line in scale_changes("cifar10_resnet18:optimizer.momentum=0", "small"))


def test_an_experiment_is_one_command(cifar, tmp_path, capsys):
    options = [word for change in TINY for word in ("--set", change)]
    folders = ["--data", str(cifar), "--out", str(tmp_path / "runs"), "--pages", str(tmp_path / "pages")]
    assert main(["reproduce", "cifar10", "--scale", "small", "--seeds", "1", *options, *folders]) == 0
    assert "page:" in capsys.readouterr().out
    page = (tmp_path / "pages" / "cifar10-small.md").read_text()
    assert str(tmp_path) not in page  # the command is as one would type it elsewhere
    assert "pinets reproduce cifar10 --scale small --seeds 1 --set model.width=8" in page
    names = get_experiment("cifar10").names("small")
    for title, runs in group_runs([tmp_path / "runs"]).items():
        recipe = title.removesuffix("-small")
        accuracy = summarize(title, runs).metrics["accuracy"][0]
        row = next(line for line in page.splitlines() if line.startswith(f"| {names[recipe]} |"))
        assert f"{accuracy:.4g}" in row
        assert papers_figure(recipe) in row
    assert "(cifar10-small-accuracy.svg)" in page
    assert (tmp_path / "pages" / "cifar10-small-accuracy.svg").read_text().startswith("<?xml")


def test_recorded_runs_are_not_run_again_on_another_machine(cifar, tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    first = reproduce("cifar10", "small", changes=TINY, seeds=1, out=tmp_path / "runs", pages=pages, data_dir=cifar)
    recorded = group_runs([pages / "runs"])
    assert [len(runs) for runs in recorded.values()] == [1, 1]
    text = b"".join(file.read_bytes() for file in pages.rglob("*") if file.is_file())
    assert str(tmp_path).encode() not in text
    assert not list(pages.rglob("*.safetensors"))
    page = first.page.read_text()
    first.page.unlink()

    one = recipes.get_recipe("cifar10_resnet18", "small", [*TINY, "seed=1"])
    recipes.train(one, tmp_path / "runs", data_dir=cifar)
    recipes.run_folder(one, tmp_path / "runs").write_record(recipes.run_folder(one, pages / "runs").path)
    monkeypatch.setattr("pinets.engine.running.train", lambda *_, **__: pytest.fail("trained again"))
    again = reproduce("cifar10", "small", changes=TINY, seeds=1, out=tmp_path / "elsewhere", pages=pages)
    assert [len(runs) for runs in again.groups.values()] == [2, 1]  # a further seed of one recipe is recorded too
    row = "| Prodpoly-ResNet |"
    assert [line for line in page.splitlines() if line.startswith(row)] == [
        line for line in again.page.read_text().splitlines() if line.startswith(row)
    ]
    with pytest.raises(ChangedRecipeError, match="epochs was 1 and is now 2"):
        reproduce("cifar10", "small", changes=[*TINY, "epochs=2"], seeds=1, out=tmp_path / "elsewhere", pages=pages)
    shutil.rmtree(pages / "runs" / "cifar10_resnet18-small")
    part = reproduce("cifar10", "small", changes=TINY, out=tmp_path / "elsewhere", pages=pages, train=False)
    assert list(part.groups) == ["Prodpoly-ResNet"]
    assert "Not trained yet: ResNet18.\n" in part.page.read_text()
    with pytest.raises(ValueError, match="no run of cifar100 at small scale is finished in"):
        reproduce("cifar100", "small", out=tmp_path / "runs", pages=pages, train=False)


def test_damaged_records_and_those_of_other_recipes_are_refused_by_name(cifar, tmp_path):
    pages, options = tmp_path / "pages", {"seeds": 1, "out": tmp_path / "runs", "pages": tmp_path / "pages"}
    reproduce("cifar10", "small", changes=TINY, data_dir=cifar, **options)
    record = pages / "runs" / "cifar10_resnet18-small" / "seed-0"
    for file, content, message in (
        ("environment.json", {}, r"environment\.json is damaged: it has no device, threads, processes, torch"),
        ("result.json", {}, r"result\.json is damaged: it has no test, parameters, seconds"),
        ("recipe.json", {}, r"recipe\.json: a recipe must be of kind"),
    ):
        whole = (record / file).read_text()
        (record / file).write_text(json.dumps(content))
        with pytest.raises(ValueError, match=message):
            reproduce("cifar10", "small", changes=TINY, out=tmp_path / "elsewhere", pages=pages, train=False)
        (record / file).write_text(whole)
    (record / "recipe.json").write_text(whole.replace('"epochs": 1', '"epochs": 7'))
    with pytest.raises(ChangedRecipeError, match="epochs was 7 and is now 1"):  # the run in out is the right one
        reproduce("cifar10", "small", changes=TINY, data_dir=cifar, **options)


def test_the_list_and_the_nearest_name(capsys):
    assert main(["reproduce"]) == 0
    assert all(line.split()[0] in EXPERIMENTS for line in capsys.readouterr().out.splitlines())
    assert main(["reproduce", "cifar_10"]) == 2
    assert "did you mean 'cifar10'?" in capsys.readouterr().err
    assert get_experiment("sngan").seeds == 10
    assert main(["reproduce", "cifar10", "--all"]) == 2
    assert "leave out 'cifar10'" in capsys.readouterr().err


def test_all_takes_the_experiments_that_have_the_scale(monkeypatch):
    assert experiments_at("full") == list(EXPERIMENTS)
    assert "motions" in experiments_at("medium")
    assert "dfaust" not in experiments_at("medium")
    made = []
    monkeypatch.setattr("pinets.tasks.reproduction.reproduce", lambda name, scale, **_: made.append((name, scale)))
    assert main(["reproduce", "--all", "--scale", "medium"]) == 0
    assert made == [(name, "medium") for name in experiments_at("medium")]
