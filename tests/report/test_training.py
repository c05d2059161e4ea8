from __future__ import annotations

import json
import re
import statistics

import pytest

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
