"""The page in a real browser: draw, classify, and look at everything that reached the server."""

from __future__ import annotations

import shutil
import socket
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

from pinets.encrypted import Preparation, plan_network, write_plan, write_preparation
from pinets.encrypted.compact import pack_bits
from pinets.encrypted.container import Container
from pinets.encrypted.service import make_app, wasm
from tests.encrypted.service.conftest import eventually

uvicorn = pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]
needs_seal = pytest.mark.skipif(
    not (wasm.folder() / wasm.FILES[0]).is_file(), reason=f"SEAL for browsers is not installed: {wasm.COMMAND}"
)


class Strokes(nn.Module):
    """Tells a vertical stroke from a horizontal one: the ink in a column against that in a row, and its square."""

    def __init__(self):
        super().__init__()
        self.ink = nn.Linear(784, 2, bias=False)
        masks = torch.zeros(2, 28, 28)
        masks[0, :, 12:16] = masks[1, 12:16] = 1 / 112
        self.ink.weight.data = masks.flatten(1)

    def forward(self, x):
        ink = self.ink(x.flatten(1))
        return ink + ink * ink


class Recorder:
    """Keeps the target and the body of every request."""

    def __init__(self, app):
        self.app, self.requests = app, []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body = bytearray()
        self.requests.append((scope["method"], scope["path"], scope["query_string"], dict(scope["headers"]), body))

        async def recording():
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        return await self.app(scope, recording, send)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service with 128-bit security whose requests are recorded; gives its address, the record and the network."""
    folder = tmp_path_factory.mktemp("site")
    network = Strokes().requires_grad_(False)
    plan, circuit = plan_network(network, torch.rand(64, 1, 28, 28).round(), packing="latency", estimate_time=False)
    assert not plan.parameters.insecure
    write_plan(plan, circuit, client=folder / "client", server=folder / "server")
    write_preparation(Preparation(("vertical", "horizontal"), (0.0,), (1.0,)), folder / "server")
    recorder = Recorder(make_app(folder / "server", folder / "store"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(recorder, log_level="warning", http="h11", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        eventually(lambda: server.started, seconds=120)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", recorder.requests, plan
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(params=[(1100, 900), (390, 844)], ids=["desktop", "phone"])
def page(browser, request):
    width, height = request.param
    opened = browser.new_page(viewport={"width": width, "height": height})
    errors = []
    opened.on("pageerror", lambda error: errors.append(error))
    yield opened
    opened.close()
    assert errors == []


def draw(page, *points):
    """Draw with the mouse; places are of a sheet of 280 by 280."""
    page.locator("#drawing").scroll_into_view_if_needed()
    box = page.locator("#drawing").bounding_box()
    places = [(box["x"] + x * box["width"] / 280, box["y"] + y * box["height"] / 280) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=5)
    page.mouse.up()


def answer(page) -> str:
    """Wait for the answer; the page's policy forbids Playwright's own way to wait."""
    end = time.monotonic() + 120
    while (text := page.locator("#status").text_content()) is None or not text.startswith(("It is", "That did not")):
        assert time.monotonic() < end, text
        time.sleep(0.1)
    return text


SPY = 'new BroadcastChannel("spy").postMessage(secret.saveToArray(none));'


@needs_seal
def test_a_drawing_is_classified_and_never_leaves_the_page(page, site):
    url, requests, plan = site
    requests.clear()

    def with_spy(route):
        """The page's own code, with a line that shows the secret key to this test."""
        text = route.fetch().text()
        line = "this.#keys = "
        assert text.count(line) == 1
        route.fulfill(body=text.replace(line, f"{SPY}\n    {line}"), content_type="text/javascript")

    page.route("**/page/client.js", with_spy)
    page.goto(url)
    page.wait_for_selector("#classify:enabled")
    page.evaluate(
        "() => { window.spied = new Promise((found) => new BroadcastChannel('spy').onmessage = "
        "({ data }) => found(Array.from(data))); }"
    )
    draw(page, (60, 140), (220, 145))
    page.click("#classify")
    assert answer(page) == "It is a horizontal, and the server does not know it."
    assert page.locator("#digit").text_content() == "horizontal"
    assert page.locator("#scores li").count() == 2
    page.click("#clear")
    draw(page, (140, 50), (145, 230))
    page.click("#classify")
    assert "vertical" in answer(page)
    page_width = page.evaluate("() => document.documentElement.scrollWidth")
    assert page_width <= page.viewport_size["width"]

    secret = bytes(page.evaluate("() => window.spied"))
    assert len(secret) > 8 * plan.parameters.ring
    posted = [(path, bytes(body)) for method, path, *_, body in requests if method == "POST"]
    assert [path.split("/")[1] for path, _ in posted] == ["keys", "evaluate", "evaluate"]
    for method, path, query, headers, body in requests:
        assert query == b""
        assert method == "POST" or not body
        assert b"cookie" not in headers
        assert path.split("/")[1] in ("", "plan", "keys", "evaluate", "page", "seal")
    # All that was posted has a known meaning and its exact size: there is no room for anything else.
    keys = Container.from_bytes(posted[0][1], "evaluation keys", "keys")
    assert sorted(keys.parts) == ["relinearisation", "rotation"]
    for _, body in posted[1:]:
        inputs = Container.from_bytes(body, "inputs", "inputs")
        assert (list(inputs.parts), inputs.facts, inputs.keys) == (["0"], {"count": 1}, keys.keys)
    # And the secret key's coefficients, as SEAL has them or packed, occur in none of it.
    data = np.frombuffer(secret[-8 * plan.parameters.ring :], dtype="<u8")
    packed = pack_bits(data, plan.parameters.prime_bits[-1])
    for content in (secret, packed):
        windows = [content[at : at + 16] for at in range(len(content) // 2, len(content) - 16, 997)]
        assert len(set(windows)) > 20
        assert not [window for window in windows for _, body in posted if window in body]


@needs_seal
def test_the_page_works_with_the_keyboard(page, site):
    page.goto(site[0])
    page.wait_for_selector("#classify:enabled")
    page.focus("#drawing")
    for _ in range(8):
        page.keyboard.press("ArrowUp")
    for _ in range(16):
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    assert "vertical" in answer(page)
    page.keyboard.press("Escape")
    assert page.locator("#digit").text_content() == "?"
    page.keyboard.press("Enter")
    assert page.locator("#status").text_content() == "Draw something first."


def test_without_seal_the_page_says_what_to_run(page, site, monkeypatch, tmp_path):
    monkeypatch.setattr(wasm, "folder", lambda: tmp_path)
    page.goto(site[0])
    page.wait_for_selector("#notice:visible")
    assert wasm.COMMAND in page.locator("#notice").text_content()
    assert page.locator("#classify").is_disabled()
