"""A service over real connections, with real worker processes and small rings."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import socket
import stat
import threading
from contextlib import suppress

import numpy as np
import pytest

from pinets.encrypted import EncryptedError, PlanError, make_keys
from pinets.encrypted.container import Container
from pinets.encrypted.service import RemoteClient, ServiceError
from pinets.encrypted.service.store import Upload
from tests.encrypted.service.conftest import TOKEN, eventually


@pytest.fixture
def client(running):
    return running.client()


def request_of(client, count=1):
    return client._client.encrypt(client.preparation(np.full((count, 1, 4, 4), 128, dtype=np.uint8)))


def places_are_free(running):
    return running.service._waiting == running.service._uploads == 0


def test_predictions_are_the_networks(running, client, images):
    np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)
    many = np.random.default_rng(1).random((20, 1, 4, 4))  # more than fit one request
    np.testing.assert_allclose(client.predict(many), running.plain(many), atol=1e-3)
    assert client.predict(many[:0]).shape == (0, 3)


def test_keys_are_made_and_sent_once_and_are_the_owners_alone(running, client, images):
    client.predict(images)
    stored = len(running.service.store)
    again = running.client()
    again.predict(images)
    assert len(running.service.store) == stored
    assert stat.S_IMODE(again.folder.stat().st_mode) == 0o700
    for name in ("secret.key", "evaluation.keys", "sent.json"):
        assert stat.S_IMODE((again.folder / name).stat().st_mode) == 0o600


def test_keys_that_the_service_has_removed_are_sent_again(running, client, images):
    client.predict(images)
    for path in running.service.store.folder.glob("*.keys"):
        path.unlink()
    np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)
    assert len(running.service.store) == 1


def test_uploads_show_their_progress(running, images):
    seen = []
    client = RemoteClient(
        running.url, cache=running.folder / "other", insecure=True, progress=lambda *told: seen.append(told)
    )
    client.predict(images)
    size = (client.folder / "evaluation.keys").stat().st_size
    assert seen[-1] == ("sending keys", size, size)
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_an_insecure_plan_is_refused(running):
    with pytest.raises(PlanError, match="for tests and not secure"):
        RemoteClient(running.url, cache=running.folder / "never")
    assert not (running.folder / "never").exists()


@pytest.mark.parametrize("wrapped", ["as it is", "as evaluation keys", "bare"])
def test_a_secret_key_is_refused_and_not_stored(running, client, wrapped):
    before = len(running.service.store)
    secret, _ = make_keys(client.plan)
    body = {
        "as it is": secret.to_bytes(),
        "as evaluation keys": Container(
            "evaluation keys", secret.plan, secret.keys, {"relinearisation": secret.parts["key"], "rotation": b""}
        ).to_bytes(),
        "bare": secret.parts["key"],
    }[wrapped]
    status, text, _ = running.ask("POST", "/keys", body)
    assert status == 400
    assert "secret key" in json.loads(text)["error"]
    status, text, _ = running.ask("POST", f"/evaluate/{client._key_id(renew=False)}", body)
    assert status == 400
    assert len(list(running.service.store.folder.iterdir())) <= before + 1


def test_another_clients_ciphertexts_are_refused(running, client, images):
    client.predict(images)
    other = running.client("others")
    other.predict(images)
    status, text, _ = running.ask("POST", f"/evaluate/{client._key_id(renew=False)}", request_of(other))
    assert status == 409
    assert "belongs to other keys" in json.loads(text)["error"]


def test_ids_that_do_not_exist(running, client):
    for name in ("0" * 32, "..%2f..%2fserver%2fplan.json", "x"):
        status, text, _ = running.ask("POST", f"/evaluate/{name}", request_of(client))
        assert status == 404
    assert "send them again" in json.loads(text)["error"]


def test_sizes_are_refused_before_the_body_is_sent(running, client):
    for path in ("/keys", f"/evaluate/{client._key_id(renew=False)}"):
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n".encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 413")
    assert running.ask("POST", path, request_of(client, 17))[0] == 413
    before = running.service.metrics.received._value.get()
    with suppress(ConnectionError):  # the service may close the connection while this side is still sending
        # chunked: no size is announced
        assert running.ask("POST", path, (bytes(1 << 20) for _ in range(50)))[0] == 413
    assert running.service.metrics.received._value.get() <= before + running.service._largest_request
    eventually(lambda: places_are_free(running))


def test_a_full_queue_says_when_to_come_back(running, client):
    key_id = client._key_id(renew=False)
    running.service._waiting += 4
    try:
        status, text, headers = running.ask("POST", f"/evaluate/{key_id}", request_of(client))
    finally:
        running.service._waiting -= 4
    assert (status, "4 requests are waiting" in text.decode()) == (503, True)
    assert int(headers["retry-after"]) >= 1
    running.service._uploads += 2
    try:
        assert running.ask("POST", "/keys", b"")[0] == 503
    finally:
        running.service._uploads -= 2


def test_a_client_waits_while_the_service_is_busy(running, client, images, monkeypatch):
    client.predict(images)
    running.service._waiting += 4
    monkeypatch.setattr(running.service, "_pace", 0.1)
    timer = threading.Timer(0.5, lambda: setattr(running.service, "_waiting", running.service._waiting - 4))
    timer.start()
    np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)
    timer.join()


@pytest.mark.parametrize("ending", ["stops", "closes"])
def test_uploads_that_do_not_end_leave_nothing(running, client, ending):
    for path in ("/keys", f"/evaluate/{client._key_id(renew=False)}"):
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\nabc".encode())
            if ending == "stops":
                assert connection.recv(1000).startswith(b"HTTP/1.1 408")
        eventually(lambda: places_are_free(running))
    assert not list(running.service.store.folder.glob("*.part"))


def test_a_client_that_goes_away_frees_its_place(running, client):
    request, key_id = request_of(client, 16), client._key_id(renew=False)
    evaluated = running.service.metrics.evaluated._value.get()
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        head = f"POST /evaluate/{key_id} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(request)}\r\n\r\n"
        connection.sendall(head.encode() + request)
        eventually(lambda: running.service._waiting == 1)
    eventually(lambda: places_are_free(running))
    assert running.service.metrics.evaluated._value.get() < evaluated + 16


def test_a_worker_that_is_killed_is_replaced_and_its_request_answered(running, client, images, caplog):
    client.predict(images)
    pool, key_id = running.service.pool, client._key_id(renew=False)
    (before,), deaths = pool.process_ids, running.service.metrics.worker_deaths._value.get()
    os.kill(before, signal.SIGSTOP)  # so that the request is under way when the worker dies
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(running.ask("POST", f"/evaluate/{key_id}", request_of(client)))
    )
    thread.start()
    eventually(lambda: running.service._waiting == 1 and not pool._free)
    os.kill(before, signal.SIGKILL)
    thread.join(30)
    ((status, text, _),) = answers
    assert (status, "send it again" in text.decode()) == (500, True)
    np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)
    assert pool.process_ids != [before]
    assert f"pinets_worker_deaths_total {deaths + 1}" in running.ask("GET", "/metrics")[1].decode()


def test_an_error_after_the_first_output_is_told(running, client, images):
    container = Container.from_bytes(request_of(client, 3), "inputs", "request")
    parts = {**container.parts, "2": bytes(len(container.parts["2"]))}  # level and scale of nothing
    broken = Container("inputs", container.plan, container.keys, parts, container.facts).to_bytes()
    with pytest.raises(ServiceError, match="not a Ciphertext for these parameters"):
        client._evaluate(client._key_id(renew=False), broken, 3)


def test_an_answer_that_is_cut_off_is_an_error(running, client, monkeypatch):
    monkeypatch.setattr(type(running.service), "_with_errors", lambda *_: _only_half())
    with pytest.raises(EncryptedError):
        client._evaluate(client._key_id(renew=False), request_of(client, 3), 3)


async def _only_half():
    yield b"pinets encrypted\n"


def test_without_the_token_nothing_is_stored_or_evaluated(guarded, images):
    for method, path in (("POST", "/keys"), ("POST", "/evaluate/0"), ("GET", "/metrics")):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            status, _, answered = guarded.ask(method, path, **headers)
            assert (status, answered["www-authenticate"]) == (401, "Bearer")
    with pytest.raises(ServiceError, match="wants a token"):
        RemoteClient(guarded.url, cache=guarded.folder / "keys", insecure=True).predict(images)
    np.testing.assert_allclose(guarded.client().predict(images), guarded.plain(images / 255), atol=1e-3)


def test_the_log_tells_nothing_of_a_client(running, client, images, caplog):
    with caplog.at_level(logging.DEBUG):
        client.predict(images)
        client._key_id(renew=True)
    assert "POST /evaluate/{id} 200" in caplog.text
    assert client._key_id(renew=False) not in caplog.text
    assert client.plan.identity not in caplog.text


def test_the_page_and_what_it_loads(running):
    status, text, headers = running.ask("GET", "/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http://" not in text.replace(b"http://www.w3.org", b"")
    assert running.ask("GET", "/seal/other.js")[0] == 404
    for name in ("../app.py", "..%2fapp.py", "other.js"):
        assert running.ask("GET", f"/page/{name}")[0] == 404
    loaded = set(re.findall(rb"/page/[\w.]+", text))
    assert loaded == {b"/page/style.css", b"/page/page.js"}
    for path in (*loaded, b"/page/worker.js", b"/page/client.js"):
        status, _, headers = running.ask("GET", path.decode())
        assert (status, headers["x-content-type-options"]) == (200, "nosniff")
        assert headers["content-type"].startswith(("text/javascript", "text/css"))


def test_a_full_disk_is_an_answer(running, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Upload, "finish", no_space)
    status, text, _ = running.ask("POST", "/keys", b"x" * 1000)
    assert (status, text) == (507, b'{"error":"the keys cannot be stored here now"}')
    assert not list(running.service.store.folder.glob("*.part"))
    monkeypatch.setattr(running.service.store, "quota", 5)
    status, text, _ = running.ask("POST", "/keys", b"x" * 1000)
    assert (status, b"exceed the quota of 5 bytes" in text) == (507, True)
