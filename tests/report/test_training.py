from __future__ import annotations

import re

from pinets.report import curve_figure, group_runs, write_report


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
