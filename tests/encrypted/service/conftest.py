from __future__ import annotations

import http.client
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pinets import CCP
from pinets.encrypted import Preparation, plan_network, write_plan, write_preparation

pytest.importorskip("tenseal")
uvicorn = pytest.importorskip("uvicorn")

from pinets.encrypted.service import Limits, RemoteClient, make_app  # noqa: E402

TOKEN = "a-token-of-enough-characters"
SIDE = 4


@dataclass
class Running:
    """A service in a thread of this process, with real worker processes."""

    folder: Path
    network: Any
    app: Any
    port: int
    token: str | None = None
    clients: list[RemoteClient] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def service(self) -> Any:
        return self.app.state.service

    def client(self, cache: str = "keys") -> RemoteClient:
        return RemoteClient(
            self.url, cache=self.folder / cache, insecure=True, token=self.token, progress=lambda *_: None
        )

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.headers)
        finally:
            connection.close()

    def plain(self, inputs: np.ndarray) -> np.ndarray:
        return self.network(torch.from_numpy(inputs)).detach().numpy()


def eventually(condition, seconds: float = 30.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Network(torch.nn.Module):
    """Images to three scores; the order is high enough for an evaluation to take a moment."""

    def __init__(self):
        super().__init__()
        self.body = CCP(SIDE * SIDE, 3, rank=4, order=3)

    def forward(self, x):
        return self.body(x.flatten(1))


def start(folder: Path, limits: Limits, token: str | None = None, workers: int = 1):
    torch.manual_seed(0)
    network, typical = Network().double(), torch.rand(30, 1, SIDE, SIDE, dtype=torch.float64)
    plan, circuit = plan_network(network, typical, packing="latency", rings=(1024,), insecure=True, estimate_time=False)
    write_plan(plan, circuit, client=folder / "client", server=folder / "server")
    write_preparation(Preparation(("a", "b", "c"), (0.0,), (1.0,), 255.0), folder / "server")
    app = make_app(folder / "server", folder / "store", limits=limits, token=token, workers=workers)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, http="h11", ws="none", log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    eventually(lambda: server.started, seconds=120)
    try:
        yield Running(folder, network, app, listening.getsockname()[1], token)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture(scope="session")
def running(tmp_path_factory):
    limits = Limits(waiting=4, uploads=2, inputs=16, idle_seconds=2.0, evaluate_seconds=30.0)
    yield from start(tmp_path_factory.mktemp("service"), limits)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """A service that wants a token."""
    yield from start(tmp_path_factory.mktemp("guarded"), Limits(), token=TOKEN)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, 1, SIDE, SIDE), dtype=np.uint8)
