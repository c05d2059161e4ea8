"""Clients that take a place and keep it, workers that die while they wait, and services that answer nonsense."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import socket
import struct
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import pinets.encrypted.service.remote as remote_module
from pinets.encrypted import make_keys
from pinets.encrypted.service import RemoteClient, ServiceError
from pinets.encrypted.service.answers import Stream
from tests.encrypted.service.conftest import eventually
from tests.encrypted.service.test_service import places_are_free, request_of


def test_a_client_that_does_not_read_its_answer_loses_its_place(running, monkeypatch):
    client = running.client()
    key_id, request = client._key_id(renew=False), request_of(client)

    async def large(*_):
        for _ in range(100):  # megabytes: more than the system keeps for a connection
            yield bytes(1 << 20)

    monkeypatch.setattr(type(running.service), "_with_errors", large)
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        head = f"POST /evaluate/{key_id} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(request)}\r\n\r\n"
        connection.sendall(head.encode() + request)
        assert connection.recv(8) == b"HTTP/1.1"  # the answer has begun, and nothing more is read
        eventually(lambda: places_are_free(running), seconds=15)


def test_a_slow_answer_is_not_a_client_that_does_not_read():
    """The time runs while a piece is unread, not while the next is computed."""
    sent, released = [], []

    async def content():
        for piece in (b"a", b"b"):
            await asyncio.sleep(0.2)
            yield piece

    async def send(message):
        sent.append(message.get("body"))

    async def receive():
        await asyncio.sleep(10)

    stream = Stream(content(), lambda: released.append(True), idle_seconds=0.1)
    asyncio.run(stream({"type": "http", "asgi": {}}, receive, send))
    assert (sent, released) == ([None, b"a", b"b", b""], [True])


def test_a_worker_that_dies_while_it_is_idle_is_replaced(running, images):
    client, pool = running.client(), running.service.pool
    client.predict(images)
    (before,), deaths = pool.process_ids, running.service.metrics.worker_deaths._value.get()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: pool.process_ids not in ([before], []), seconds=60)
    assert running.service.metrics.worker_deaths._value.get() == deaths + 1
    np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)


@contextmanager
def answering(answers):
    """The address of a service that gives these answers, by path: a status, headers and content."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, content = answers[self.path]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def plan(running):
    return json.loads(running.ask("GET", "/plan")[1])


def opened(url, cache, **options):
    return RemoteClient(url, cache=cache, insecure=True, progress=lambda *_: None, **options)


@pytest.mark.parametrize("inputs", [0, -5, 2.5, 1e999, "many", None, True])
def test_a_service_that_takes_no_inputs_is_refused(plan, tmp_path, inputs):
    """With a negative number no input would be sent, and no output returned."""
    plan["limits"]["inputs"] = inputs
    with (
        answering({"/plan": (200, {}, json.dumps(plan).encode())}) as url,
        pytest.raises(ServiceError, match="at least 1 input in a request"),
    ):
        opened(url, tmp_path)


@pytest.mark.parametrize(
    "keys, outputs, message",
    [
        ((200, {}, b"{}"), None, "gave no id"),
        ((200, {}, b'{"id": "a b"}'), None, "contain"),
        ((503, {"Retry-After": "\xb2"}, b"{}"), None, "status 503"),
        ((200, {}, b'{"id": "0"}'), b'{"parts": [["0", 1e999]]}', "malformed header"),
        ((200, {}, b'{"id": "0"}'), b'{"parts": [["0", -1]]}', "parts of -1 bytes"),
        ((200, {}, b'{"id": "0"}'), None, "answered 0 of 1 inputs"),
    ],
)
def test_answers_that_make_no_sense_are_errors_of_ours(plan, running, tmp_path, keys, outputs, message):
    header = b"" if outputs is None else b"pinets encrypted\n" + struct.pack("<Q", len(outputs)) + outputs
    answers = {"/plan": (200, {}, json.dumps(plan).encode()), "/keys": keys, "/evaluate/0": (200, {}, header)}
    with answering(answers) as url:
        client = opened(url, tmp_path, seconds=0.5)
        with pytest.raises(remote_module.EncryptedError, match=message):
            client.predict(np.full((1, 1, 4, 4), 0.5))


def test_two_processes_that_make_the_first_keys_end_with_the_same(running, images, monkeypatch, tmp_path):
    """Each looks for keys when there are none; the second has them ready when those of the first are there."""
    made = remote_module.make_key_files
    first = []

    def overtaken(*folders):
        made(*folders)
        if not first:
            first.append(None)
            first.append(opened(running.url, tmp_path))

    monkeypatch.setattr(remote_module, "make_key_files", overtaken)
    second = opened(running.url, tmp_path)
    assert second._client._keys == first[1]._client._keys
    assert [path.name for path in tmp_path.iterdir()] == [second.plan.identity]
    for client in (first[1], second):
        np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)


def test_keys_that_are_half_written_are_not_opened(running, monkeypatch, tmp_path):
    """While one process makes its keys, another finds none, and makes its own."""
    identity = running.service.plan.identity

    def seen(folder, keys):
        assert not (tmp_path / identity).exists()
        secret, evaluation = make_keys(running.service.plan)
        for path, container in ((folder / "secret.key", secret), (keys, evaluation)):
            path.write_bytes(container.to_bytes())

    monkeypatch.setattr(remote_module, "make_key_files", seen)
    opened(running.url, tmp_path)
