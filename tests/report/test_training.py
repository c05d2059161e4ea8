from __future__ import annotations

import json
import re
import statistics

import pytest

from pinets import recipes
from pinets.cli import main
from pinets.report.training import curve_figure, group_runs, summarize, text_table, write_report
from pinets.train.files import write_json
from pinets.train.run import RunFolder


@pytest.fixture
def runs(tmp_path):
    """Two recipes with three seeds each; the last run is not finished."""
    for name, offset in (("baseline", 0.0), ("ours", 0.1)):
        for seed in range(3):
            run = RunFolder(tmp_path / "runs" / f"{name}-small" / f"seed-{seed}")
            run.start({"name": name, "scale": "small", "note": "<b>"}, processes=1)
            rows = [
                {"split": "validation", "step": 10 * epoch, "epoch": epoch, "accuracy": offset + epoch / 10 + seed / 50}
                for epoch in (1, 2, 3)
            ]
            run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            if (name, seed) != ("ours", 2):
                test = {"accuracy": offset + 0.5 + seed / 10}
                write_json(run.result_file, {"test": test, "parameters": {"model": 1000}, "seconds": 60.0 * (seed + 1)})
    return tmp_path / "runs"


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
    assert table[1].split() == ["baseline-small", "3", "1,000", "2.0", "0.6000", "±", "0.1000"]


def test_a_single_run_has_no_deviation(runs):
    one = summarize("x", group_runs([runs / "baseline-small" / "seed-0"])["baseline-small"])
    assert "±" not in text_table([one])


def test_nothing_finished_is_an_error(runs):
    with pytest.raises(ValueError, match="no run of x is finished"):
        summarize("x", group_runs([runs / "ours-small" / "seed-2"])["ours-small"])


def test_the_figure_has_a_line_and_a_band_for_each_recipe(runs):
    svg = curve_figure(group_runs([runs]), "accuracy")
    assert svg.count("FillBetweenPolyCollection") == 2
    assert svg == curve_figure(group_runs([runs]), "accuracy")  # the same runs, the same file


def test_the_report_needs_nothing_beside_it(runs, tmp_path):
    write_report(group_runs([runs]), tmp_path / "report.html", title="A < B")
    page = (tmp_path / "report.html").read_text()
    assert "A &lt; B" in page
    assert "&lt;b&gt;" in page  # what recipes hold is text, never markup
    assert "0.6000 ± 0.1000" in page
    assert "seed-2: not finished, step 30" in page
    assert re.findall(r'(?:src|href)="([^"#]+)', page) == []  # beside references within the figures


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
        ("result.json", "[]", r"result\.json is damaged: it has no test, parameters, seconds"),
        ("metrics.jsonl", "garbage\n", r"metrics\.jsonl, line 1: not valid JSON"),
    ],
)
def test_a_damaged_run_is_named_and_left_out_of_a_report_of_several(variants, file, content, told):
    (variants / "b" / file).write_text(content)
    with pytest.warns(UserWarning, match=rf"the run in .*b is left out: .*{told}"):
        groups = group_runs([variants / "a", variants / "b"])
    assert [run.path.name for group in groups.values() for run in group] == ["a"]
    with pytest.raises(ValueError, match=told):
        group_runs([variants / "b"])
