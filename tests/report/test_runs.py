from __future__ import annotations

import statistics

import pytest

from pinets import tasks as recipes
from pinets._storage import write_json
from pinets.cli import main
from pinets.engine.run import RunFolder
from pinets.report import deviation, group_runs, summarize, text_table


def test_runs_are_found_at_any_depth_and_grouped_by_recipe(runs):
    groups = group_runs([runs])
    assert {name: len(group) for name, group in groups.items()} == {"baseline-small": 3, "ours-small": 3}
    assert len(group_runs([runs / "ours-small" / "seed-1"])["ours-small"]) == 1


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run in"):
        group_runs([tmp_path])


def test_mean_and_deviation_are_over_finished_runs(runs):
    baseline, ours = (summarize(name, group) for name, group in group_runs([runs]).items())
    assert baseline.metrics["accuracy"] == pytest.approx((0.6, statistics.stdev([0.5, 0.6, 0.7])))
    assert (baseline.runs, ours.runs, ours.seconds, ours.parameters) == (3, 2, 90.0, 1000)
    table = text_table([baseline, ours]).splitlines()
    assert table[1].split() == ["baseline-small", "3", "1,000", "2.0", "0.60", "±", "0.10"]


def test_a_run_that_diverged_leaves_no_deviation():
    assert deviation([1.0, float("inf")]) == deviation([1.0, float("nan")]) == 0
    assert deviation([1.0, 3.0]) == statistics.stdev([1.0, 3.0])


def test_a_single_run_has_no_deviation(runs):
    one = summarize("x", group_runs([runs / "baseline-small" / "seed-0"])["baseline-small"])
    assert "±" not in text_table([one])


def test_nothing_finished_is_an_error(runs):
    with pytest.raises(ValueError, match="no run of x is finished"):
        summarize("x", group_runs([runs / "ours-small" / "seed-2"])["ours-small"])


@pytest.fixture
def variants(tmp_path):
    """Finished runs of one recipe: two seeds as they are, one of them from before a key existed, and two changed."""
    for folder, changes in {
        "a": [],
        "b": ["seed=1"],
        "clipped": ["clip=1.5"],
        "narrow": ["model.width=8", "schedule=Constant"],
    }.items():
        values = recipes.to_json(recipes.get_recipe("cifar10_resnet18", "small", changes))
        if folder == "b":
            del values["clip"]
        run = RunFolder(tmp_path / folder)
        run.start(values, processes=1)
        write_json(run.result_file, {"test": {"accuracy": 0.5}, "parameters": {"model": 10}, "seconds": 60.0})
    return tmp_path


def test_runs_of_other_values_under_one_name_are_not_averaged(variants):
    groups = group_runs([variants])
    assert [[run.path.name for run in group] for group in groups.values()] == [["a", "b"], ["clipped"], ["narrow"]]
    usual, clipped, narrow = groups
    assert usual.startswith("cifar10_resnet18-small (clip=none, ")
    assert "clip=1.5" in clipped
    assert "model.width=8" in narrow
    assert "schedule=Constant" in narrow
    assert [*group_runs([variants / "a", variants / "b"])] == ["cifar10_resnet18-small"]


def test_a_run_that_is_named_twice_counts_once(variants, capsys, monkeypatch):
    monkeypatch.chdir(variants)
    assert main(["report", "a", str(variants / "a"), "b/../a"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["cifar10_resnet18-small", "1"]


@pytest.mark.parametrize(
    "file, content, told",
    [
        ("recipe.json", "{}", r"recipe\.json is damaged: it has no name, scale"),
        ("result.json", "{}", r"result\.json is damaged: it has no test, parameters, seconds"),
        ("recipe.json", '{"name": ["a"], "scale": "full"}', r"recipe\.json: name must be a text, got \['a'\]"),
        ("environment.json", "[]", r"environment\.json must hold a JSON object"),
        (
            "result.json",
            '{"test": {"accuracy": "high"}, "parameters": {}, "seconds": 1}',
            r"result\.json: test: accuracy must be a number, got 'high'",
        ),
        (
            "result.json",
            '{"test": [0.5], "parameters": {}, "seconds": 1}',
            r"result\.json: test must be an object",
        ),
        ("result.json", '{"test": {}, "parameters": {}, "seconds": null}', r"result\.json: seconds must be a number"),
        ("metrics.jsonl", "garbage\n", r"metrics\.jsonl, line 1 is not valid JSON"),
        (
            "metrics.jsonl",
            '{"split": "train", "step": 1, "epoch": 0, "loss": "low"}\n',
            r"metrics\.jsonl, line 1: loss must be a number, got 'low'",
        ),
        (
            "metrics.jsonl",
            f'{{"split": "train", "step": 1, "epoch": {10**400}}}\n',
            r"metrics\.jsonl, line 1: epoch must have at most 64 bits",
        ),
    ],
)
def test_a_damaged_run_is_named_and_left_out_of_a_report_of_several(variants, file, content, told):
    (variants / "b" / file).write_text(content)
    with pytest.warns(UserWarning, match=rf"the run in .*b is left out: .*{told}"):
        groups = group_runs([variants / "a", variants / "b"])
    assert [run.path.name for group in groups.values() for run in group] == ["a"]
    with pytest.raises(ValueError, match=told):
        group_runs([variants / "b"])


def test_a_run_without_an_environment_is_left_out_of_a_report_of_several(variants):
    (variants / "b" / "environment.json").unlink()
    with pytest.warns(UserWarning, match=r"b is left out: .*environment\.json"):
        groups = group_runs([variants / "a", variants / "b"])
    assert [run.path.name for group in groups.values() for run in group] == ["a"]


@pytest.mark.parametrize("file", ["recipe.json", "environment.json"])
def test_a_report_shows_no_file_that_a_run_links_to(variants, tmp_path, file):
    (tmp_path / "secret.json").write_text((variants / "b" / file).read_text())
    (variants / "b" / file).unlink()
    (variants / "b" / file).symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match=rf"{file} is a symbolic link"):
        group_runs([variants / "b"])


def test_a_report_replaces_no_file_of_a_run(variants, capsys):
    recipe = variants / "a" / "recipe.json"
    before = recipe.read_bytes()
    assert main(["report", str(variants / "a"), "--out", str(recipe)]) == 2
    assert "--out: expected a file name that ends in .html, got" in capsys.readouterr().err
    assert recipe.read_bytes() == before
