from __future__ import annotations

import re

from pinets.report import Section, curve_figure, curves, group_runs, paragraph, write_report


def test_the_figure_has_a_line_and_a_band_for_each_recipe(runs):
    svg = curve_figure(group_runs([runs]), "accuracy")
    assert svg.count("FillBetweenPolyCollection") == 2
    assert svg == curve_figure(group_runs([runs]), "accuracy")  # the same runs, the same file


def test_the_report_needs_nothing_beside_it(runs, tmp_path):
    write_report(group_runs([runs]), tmp_path / "report.html", title="A < B")
    page = (tmp_path / "report.html").read_text()
    assert "A &lt; B" in page
    assert "&lt;b&gt;" in page  # what recipes hold is text, never markup
    assert "0.60 ± 0.10" in page
    assert "seed-2: not finished, step 30" in page
    assert re.findall(r'(?:src|href)="([^"#]+)', page) == []  # beside references within the figures


def test_training_and_validation_share_a_chart_and_one_run_has_no_band(runs):
    run = next(iter(group_runs([runs / "baseline-small" / "seed-0"]).values()))[0]
    with run.metrics_file.open("a") as file:
        file.write('{"split": "train", "step": 10, "epoch": 1, "accuracy": 0.3, "loss": 1.0, "rate": 0.1}\n')
    groups = {"baseline": [run]}
    assert curves(groups) == {"accuracy": ("validation", "train"), "loss": ("train",)}
    svg = curve_figure(groups, "accuracy", ("validation", "train"))
    assert "FillBetweenPolyCollection" not in svg
    assert "One run. Dashed" in svg


def test_a_task_has_its_say_about_a_single_run(runs, tmp_path):
    groups = group_runs([runs / "baseline-small" / "seed-0"])
    write_report(groups, tmp_path / "r.html", about=lambda run: [Section("About", paragraph(run.path.name))])
    assert "<h2>About</h2><p>seed-0</p>" in (tmp_path / "r.html").read_text()
    write_report(group_runs([runs]), tmp_path / "r.html", about=lambda run: [Section("About")])
    assert "About" not in (tmp_path / "r.html").read_text()
