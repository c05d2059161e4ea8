"""The sections of a classifier's report say what the network computes."""

from __future__ import annotations

import re

import torch
from torch import nn

from pinets.cli import main
from pinets.engine.run import RunFolder
from pinets.tasks.classification.report import Answers, confusion_table, degree_figure
from pinets.tasks.run_report import about_run

ANSWERS = Answers(
    torch.arange(4),
    torch.tensor([0, 0, 1, 2]),
    torch.tensor([[3.0, 0, 0], [0, 2.0, 0], [0, 1.0, 0], [0, 9.0, 0]]),
    ("cat", "<b>", "cow"),
)


def test_confusions_are_counted_by_true_and_predicted_class():
    assert ANSWERS.confusions.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    table = confusion_table(ANSWERS)
    assert 'title="cat, said &lt;b&gt;: 1 (50 %)"' in table
    assert "<b>" not in table


def test_the_hardest_have_the_largest_loss():
    loss = nn.functional.cross_entropy(ANSWERS.scores, ANSWERS.labels, reduction="none")
    assert ANSWERS.hardest(2).tolist() == loss.argsort(descending=True)[:2].tolist() == [3, 1]


def test_the_polynomial_cut_off_is_right_as_often_as_its_partial_sums():
    parts = torch.zeros(3, 4, 2)
    parts[0, :, 0] = 1.0  # degree 0 says class 0, degree 2 corrects the last two
    parts[2, 2:, 1] = 5.0
    _, sentence = degree_figure(parts, torch.tensor([0, 0, 1, 1]))
    assert sentence == "Degree 2 adds most to the scores; 99 % of the right answers need the degrees up to 2."


def test_a_run_is_looked_at_and_opens_in_a_browser(tiny_run, tmp_path, chromium):
    run, data = tiny_run
    titles = [section.title for section in about_run(RunFolder(run), data)]
    assert titles == ["Is it a polynomial?", "Strongest interactions", "Confusions", "The hardest samples"]
    assert main(["report", str(run), "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "of certified degree 4." in page
    assert not re.findall(r'(?:src|href)="(?!data:)([^"#]+)', page)
    shown = chromium(tmp_path / "r.html")
    assert shown.locator(".tiles img").count() == 12
    assert shown.locator("table.heat tbody tr").count() == 10
    point = shown.locator("circle.hint").first  # where the curve is, and with its number
    assert "epoch 1: " in point.locator("title").text_content()
    around = point.locator("xpath=ancestor::*[local-name()='svg'][last()]")
    frame, drawing = point.bounding_box(), around.bounding_box()
    assert drawing["x"] < frame["x"] < drawing["x"] + drawing["width"]
    assert drawing["y"] < frame["y"] < drawing["y"] + drawing["height"]


def test_a_run_without_its_data_gets_the_reason(tiny_run, tmp_path):
    (section,) = about_run(RunFolder(tiny_run[0]), tmp_path)
    assert section.title == "The network"
    assert "could not be looked at" in section.content[0]
