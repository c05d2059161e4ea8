"""The paper's tables and figures as commands."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from pinets import recipes
from pinets.cli import main
from pinets.recipes.catalogue.experiments import EXPERIMENTS, get_experiment
from pinets.recipes.running import require_comparable
from pinets.report.experiment import papers_figure, small_scale_changes
from pinets.report.training import group_runs, summarize

TINY = ["model.width=8", "channels_last=no", "epochs=1", "batch=50", "log_every=1"]


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_compares_can_be_compared(name, scale):
    chosen = [recipes.get_recipe(one, scale) for one in EXPERIMENTS[name].names(scale)]
    for first, second in combinations(chosen, 2):
        require_comparable(first, second)


def test_no_recipe_of_the_paper_is_left_out():
    """What the paper gives a figure for is in an experiment."""
    covered = {name for experiment in EXPERIMENTS.values() for name in experiment.names("full")}
    numbered = {name for name in recipes.list_recipes() if re.match(r".*\d", papers_figure(name))}
    in_the_mesh_figure = {name for name in numbered if name.startswith(("coma_", "dfaust_"))}
    assert numbered - in_the_mesh_figure <= covered


def test_the_papers_figures_are_those_of_its_tables():
    assert papers_figure("cifar10_prodpoly_resnet18") == "accuracy 0.945 ± 0.001, 6.0 M parameters"
    assert papers_figure("cifar10_sngan_ncp").startswith("IS 8.30 ± 0.09, FID 17.65 ± 0.76")


def test_what_small_scale_changes_is_told():
    told = small_scale_changes(recipes.get_recipe("cifar10_resnet18", "small"))
    assert "`epochs`: 120 → 5" in told
    assert not any("name" in line or "log_every" in line for line in told)
    assert small_scale_changes(recipes.get_recipe("cifar10_resnet18")) == []


def test_an_experiment_is_one_command(cifar, tmp_path, capsys):
    options = [word for change in TINY for word in ("--set", change)]
    folders = ["--data", str(cifar), "--out", str(tmp_path / "runs"), "--pages", str(tmp_path / "pages")]
    assert main(["reproduce", "cifar10", "--scale", "small", "--seeds", "1", *options, *folders]) == 0
    assert "page:" in capsys.readouterr().out
    page = (tmp_path / "pages" / "cifar10.md").read_text()
    assert str(tmp_path) not in page  # the command is as one would type it elsewhere
    assert "pinets reproduce cifar10 --scale small --seeds 1 --set model.width=8" in page
    for name, runs in group_runs([tmp_path / "runs"]).items():
        accuracy = summarize(name, runs).metrics["accuracy"][0]
        row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert f"{accuracy:.4f}" in row
        assert papers_figure(name.removesuffix("-small")) in row
    assert "(cifar10-accuracy.svg)" in page
    assert (tmp_path / "pages" / "cifar10-accuracy.svg").read_text().startswith("<?xml")


def test_the_list_and_the_nearest_name(capsys):
    assert main(["reproduce"]) == 0
    assert all(line.split()[0] in EXPERIMENTS for line in capsys.readouterr().out.splitlines())
    assert main(["reproduce", "cifar_10"]) == 2
    assert "did you mean 'cifar10'?" in capsys.readouterr().err
    assert get_experiment("sngan").seeds == 10
