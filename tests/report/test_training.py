from __future__ import annotations

import html
import json
import re

import pytest

from pinets.engine.run import RunFolder
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


@pytest.mark.parametrize("name", [r"$\frac{$", "$x$", r"\$ $", "€ < Π"])
def test_names_are_drawn_as_they_are(runs, tmp_path, name):
    """A dollar sign in the name of a recipe or of a metric starts no formula, and a broken formula stops no report."""
    run = RunFolder(runs / "ours-small" / "seed-0")
    run.recipe_file.write_text(json.dumps({**run.recipe(), "name": name}))
    rows = [{"split": "validation", "step": epoch, "epoch": epoch, name: 1e9 * epoch} for epoch in (1, 2)]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_report(group_runs([run.path, runs / "baseline-small"]), tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text())
    assert f"<!-- {name}-small -->" in page  # matplotlib's comment at the glyphs of the legend


def test_pictures_that_are_links_are_left_out(runs, tmp_path):
    run = RunFolder(runs / "ours-small" / "seed-0")
    run.pictures_folder.mkdir()
    own, linked = (run.pictures_folder / f"samples-0000000{step}.png" for step in (1, 2))
    own.write_bytes(b"own picture")
    (tmp_path / "secret").write_bytes(b"secret")
    linked.symlink_to(tmp_path / "secret")
    (run.pictures_folder / "samples-last.png").write_bytes(b"of no step")
    assert run.pictures("samples") == [own]
    write_report(group_runs([run.path]), tmp_path / "report.html")
    assert "samples at step 1," in (tmp_path / "report.html").read_text()
    run.pictures_folder.rename(tmp_path / "elsewhere")
    run.pictures_folder.symlink_to(tmp_path / "elsewhere")
    assert run.pictures("samples") == []


def test_training_and_validation_share_a_chart_and_one_run_has_no_band(runs):
    run = next(iter(group_runs([runs / "baseline-small" / "seed-0"]).values()))[0]
    with run.metrics_file.open("a") as file:
        file.write('{"split": "train", "step": 10, "epoch": 1, "accuracy": 0.3, "loss": 1.0, "rate": 0.1}\n')
    groups = {"baseline": [run]}
    assert curves(groups) == {"accuracy": ("validation", "train"), "loss": ("train",)}
    svg = curve_figure(groups, "accuracy", ("validation", "train"))
    assert "FillBetweenPolyCollection" not in svg
    assert "One run. Dashed" in svg


@pytest.mark.parametrize(
    ("values", "ticks"), [((40.0, 3.0), {"3", "5", "10", "30"}), ((0.9, 0.1), {"0.2", "0.4", "0.8"})]
)
def test_values_that_fall_far_have_a_logarithmic_axis_and_shares_a_linear_one(runs, values, ticks):
    run = RunFolder(runs / "baseline-small" / "seed-0")
    rows = [
        {"split": "validation", "step": epoch, "epoch": epoch, "value": value} for epoch, value in enumerate(values, 1)
    ]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    groups = {f"network {number}": [run] for number in range(8)}
    svg = curve_figure(groups, "value")
    assert ticks <= set(re.findall(r"<!-- ([\d.]+) -->", svg))  # matplotlib's comments at the glyphs
    looks = re.findall(r'<path d="M[^"]+L[^"]+" clip-path=[^>]+ style="([^"]+)"', svg)
    curves_drawn = {look for look in looks if "stroke-width: 1.5" in look}
    assert len(curves_drawn) == len(groups)  # more networks than colours are told apart by their lines


def test_a_task_has_its_say_about_a_single_run(runs, tmp_path):
    groups = group_runs([runs / "baseline-small" / "seed-0"])
    write_report(groups, tmp_path / "r.html", about=lambda run: [Section("About", paragraph(run.path.name))])
    assert "<h2>About</h2><p>seed-0</p>" in (tmp_path / "r.html").read_text()
    write_report(group_runs([runs]), tmp_path / "r.html", about=lambda run: [Section("About")])
    assert "About" not in (tmp_path / "r.html").read_text()
