from __future__ import annotations

import shutil

import pytest
import torch


@pytest.fixture
def cifar(tmp_path):
    """A data folder with CIFAR-10 in its official binary layout: 10 colours, one per class, and noise."""
    folder = tmp_path / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n")
    generator = torch.Generator().manual_seed(0)
    colours = torch.randint(40, 216, (10, 3, 1, 1), generator=generator)
    for name, count in [*((f"data_batch_{n}", 40) for n in range(1, 6)), ("test_batch", 50)]:
        labels = torch.arange(count) % 10
        images = (colours[labels] + torch.randint(-40, 40, (count, 3, 32, 32), generator=generator)).clamp(0, 255)
        records = torch.cat([labels[:, None], images.flatten(1)], dim=1).to(torch.uint8)
        (folder / f"{name}.bin").write_bytes(records.numpy().tobytes())
    return tmp_path / "data"


@pytest.fixture
def chromium():
    """Opens a file in Chromium and refuses everything from elsewhere."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()

        def open_file(path):
            problems = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(path.as_uri())
            assert problems == []
            return page

        yield open_file
        browser.close()
