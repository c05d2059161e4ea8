"""The first thing a newcomer runs: that it works, says the truth, and shows in a browser."""

import json
import shutil

import pytest
import torch

from pinets import certify, orders, spec
from pinets._progress import Progress
from pinets.tasks.quickstart import BUDGET, Contender, contenders, load_digits, quickstart, train
from pinets.tasks.quickstart_report import low_degrees, text_table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    lines: list[str] = []
    outcomes = quickstart(folder, seeds=2, epochs=6, say=lines.append)
    return folder, outcomes, "\n".join(lines)


def test_how_far_it_is_is_told_run_by_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "pinets.tasks.quickstart.Progress",
        lambda *given, **options: Progress(*given, **{**options, "every_seconds": 0}),
    )
    contender = Contender("CCP", 2, "CCP(64, 10, rank=4, order=2)", 0)
    monkeypatch.setattr("pinets.tasks.quickstart.contenders", lambda: [contender])
    monkeypatch.setattr("pinets.tasks.quickstart_report.render", lambda *_: "")  # is about all contenders
    (outcome,) = quickstart(tmp_path, seeds=1, epochs=1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("quickstart: 1/2 run,")
    assert second.startswith("quickstart: 2/2 run,")
    assert f"CCP, order 2={outcome.validation:.4g}" in first + second
    assert "±" not in text_table([outcome])  # one seed has no deviation


def test_contenders_share_one_budget():
    field = contenders()
    assert [contender.label for contender in field if contender.order is None] == ["Linear", "ReLU-MLP"]
    assert {(c.name, c.order) for c in field if c.order} == {
        (n, o) for n in ("CCP", "NCP", "NCPSkip") for o in (1, 2, 3, 4)
    }
    for contender in field[1:]:
        assert 0.95 * BUDGET <= contender.parameters <= BUDGET
        module = spec.build(contender.expression)
        assert sum(parameter.numel() for parameter in module.parameters()) == contender.parameters


def test_splits_are_disjoint_balanced_and_standardised():
    digits = load_digits()
    splits = (digits.train, digits.validation, digits.test)
    assert [len(inputs) for inputs, _ in splits] == [1077, 360, 360]
    assert all(torch.bincount(targets).min() >= 0.9 * len(targets) / 10 for _, targets in splits)
    assert digits.train[0].mean().item() == pytest.approx(0, abs=1e-5)
    assert digits.train[0].std().item() == pytest.approx(1, rel=1e-3)


def test_table_and_results_agree_with_the_models_written(run):
    folder, outcomes, text = run
    results = json.loads((folder / "results.json").read_text())
    digits = load_digits()
    for outcome, result in zip(outcomes, results, strict=True):
        contender = outcome.contender
        module, _ = spec.load(folder / "models" / f"{contender.key}.safetensors")
        with torch.no_grad():
            accuracy = (module(digits.test[0]).argmax(1) == digits.test[1]).double().mean().item()
        assert result["test_accuracy"][0] == accuracy
        assert accuracy > 0.8, contender.label
        certificate = certify(module, digits.test[0][:1])
        assert (
            result["degree"] == certificate.degree == (contender.order or (1 if contender.name == "Linear" else None))
        )
        line = next(line for line in text.splitlines() if line.startswith(contender.label + " "))
        assert f"{contender.parameters:,}" in line
        assert f"{100 * outcome.mean:.1f} ± {100 * outcome.deviation:.1f} %" in line


def test_coefficient_maps_are_those_of_the_polynomial(run):
    _, outcomes, _ = run
    outcome = next(outcome for outcome in outcomes if outcome.contender.key == "ncp-2")
    linear, quadratic = low_degrees(outcome.module, torch.zeros(64))
    z = load_digits().test[0][0]
    with torch.no_grad():
        expected = orders(outcome.module, z[None])[:, 0]
    torch.testing.assert_close(linear @ z, expected[1], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(torch.einsum("kij,i,j->k", quadratic, z, z), expected[2], rtol=1e-3, atol=1e-3)


def test_it_ends_by_saying_what_to_try_next(run):
    folder, _, text = run
    assert str(folder / "report.html") in text
    assert "pinets certify" in text
    assert "pinets expand" in text


def test_same_seed_same_numbers(run):
    _, outcomes, _ = run
    outcome = outcomes[-1]
    module, history = train(outcome.contender, load_digits(), seed=0, weight_decay=outcome.weight_decay, epochs=6)
    assert history.train_loss == outcome.histories[0].train_loss
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), outcome.module.parameters(), strict=True))


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="at least 1, got 0 and 6"):
        quickstart(tmp_path, seeds=0, epochs=6)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; install it to test the page")
def test_report_shows_in_a_browser_without_a_network(run):
    from playwright.sync_api import sync_playwright

    folder, outcomes, _ = run
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        requests: list[str] = []
        problems: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((folder / "report.html").as_uri())
        assert page.locator("section").count() == 7
        assert page.locator("tbody tr").count() == len(outcomes)
        assert page.locator("figure svg").count() == 4
        for drawing in page.locator("figure svg").all():
            box = drawing.bounding_box()
            assert box is not None
            assert box["width"] > 400
            assert box["height"] > 150
            assert drawing.get_attribute("aria-label")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it must not scroll sideways"
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nor on a telephone"
        browser.close()
    assert requests == [(folder / "report.html").as_uri()]
    assert problems == []


def test_a_folder_that_cannot_be_made_is_refused_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("pinets.tasks.quickstart._run", lambda *_: pytest.fail("it trains"))
    with pytest.raises(OSError, match="file"):
        quickstart(tmp_path / "file" / "runs")
