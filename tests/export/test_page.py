"""A page that runs the network in a browser gives the network's answers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pinets import resolve
from pinets.cli import main
from pinets.data.formats.images import encode_png
from pinets.prediction import predict

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
RUNTIME = Path(os.environ.get("PINETS_ORT_WEB", "node_modules/onnxruntime-web/dist"))


def test_what_a_page_needs_is_told(tiny_run, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    words = ["export", str(tiny_run[0]), "--to", "html", "--out", str(tmp_path / "page.html")]
    assert main(words) == 1
    assert "npm install onnxruntime-web" in capsys.readouterr().err
    assert main([*words, "--runtime", str(tmp_path)]) == 1
    assert "has no ort.wasm.min.mjs" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.skipif(not RUNTIME.is_dir(), reason="PINETS_ORT_WEB does not name the folder dist of onnxruntime-web")
def test_a_picture_is_classified_in_the_browser_as_here(tiny_run, tmp_path):
    pytest.importorskip("onnxscript")
    from playwright.sync_api import sync_playwright

    run, data = tiny_run
    page_file, picture = tmp_path / "page.html", tmp_path / "digit.png"
    assert main(["export", str(run), "--to", "html", "--runtime", str(RUNTIME), "--out", str(page_file)]) == 0
    picture.write_bytes(encode_png(resolve(run, data_dir=data).data.splits.test.images[5]))
    (expected,) = predict(run, [picture])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        requests, problems = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(page_file.as_uri())
        page.wait_for_timeout(2000)
        assert problems == []
        page.wait_for_function("document.getElementById('said').textContent.startsWith('draw')", timeout=120_000)
        page.set_input_files("#file", str(picture))
        page.wait_for_function("document.getElementById('said').dataset.scores", timeout=60_000)
        scores = json.loads(page.locator("#said").get_attribute("data-scores"))
        assert page.locator("#said").inner_text() == expected.best()[0][0]
        assert scores == pytest.approx(expected.scores, abs=1e-4)
        box = page.locator("#pad").bounding_box()
        page.mouse.move(box["x"] + 140, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 140, box["y"] + 240, steps=5)
        page.mouse.up()
        page.wait_for_timeout(500)
        assert page.locator(".bar").count() == 10
        if folder := os.environ.get("PINETS_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/page.png")
        browser.close()
    assert problems == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in requests)
