"""The service as users start it: a process that is killed, started again, and found behind nginx."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from pinets.encrypted.service import RemoteClient, ServiceError
from tests.encrypted.service.conftest import eventually

DOCS = Path(__file__).parents[3] / "docs" / "encrypted.md"


@pytest.fixture
def serve(tmp_path):
    """Start ``pinets encrypt serve`` on a network with 128-bit security; gives the process and the address."""
    started = []

    def start(*options: str) -> tuple[subprocess.Popen, str]:
        log = (tmp_path / f"log-{len(started)}").open("w+")
        command = [sys.executable, "-m", "pinets", "encrypt", "serve", "CCP(16, 3, rank=4, order=2)", "--port", "0"]
        command += ["--store", str(tmp_path / "store"), "--workers", "1", *options]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        started.append((process, log))
        eventually(lambda: "open http" in (tmp_path / log.name).read_text(), seconds=120)
        url = re.search(r"open (http://\S+)/", Path(log.name).read_text())[1]
        eventually(lambda: reachable(url), seconds=120)
        return process, url

    yield start
    for process, log in started:
        process.terminate()
        assert process.wait(30) in (0, -signal.SIGKILL, -signal.SIGTERM), Path(log.name).read_text()
        log.close()


def reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10):
            return True
    except OSError:
        return False


INPUTS = np.linspace(-1, 1, 32).reshape(2, 16)


@pytest.mark.slow
def test_a_service_that_is_killed_forgets_no_keys_and_leaves_no_processes(serve, tmp_path):
    process, url = serve()
    client = RemoteClient(url, cache=tmp_path / "keys")
    outputs = client.predict(INPUTS)
    key_id, request = client._key_id(renew=False), client._client.encrypt(np.tile(INPUTS, (16, 1)))
    workers = psutil.Process(process.pid).children()
    errors = []

    def ask():
        try:
            client._evaluate(key_id, request, 32)
        except ServiceError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    os.kill(workers[0].pid, signal.SIGSTOP)  # so that the request is under way
    thread.start()
    (tmp_path / "store" / "half.part").write_bytes(b"an upload that was under way")
    eventually(lambda: psutil.Process(process.pid).net_connections("tcp")[1:])  # beside the one that listens
    process.kill()
    os.kill(workers[0].pid, signal.SIGCONT)
    thread.join(60)
    assert len(errors) == 1  # an error, and no hanging client
    eventually(lambda: not any(worker.is_running() for worker in workers))
    port = url.rpartition(":")[2]
    serve("--port", port)
    assert not list((tmp_path / "store").glob("*.part"))
    np.testing.assert_allclose(client.predict(INPUTS), outputs, atol=1e-3)
    assert client._key_id(renew=False) == key_id


@pytest.mark.slow
def test_predict_on_the_command_line(serve, tmp_path):
    (tmp_path / "token").write_text("a token\n")
    failed = subprocess.run(
        [sys.executable, "-m", "pinets", "encrypt", "serve", "CCP(4, 2, rank=2, order=2)", "--token-file", "token"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (failed.returncode, "at least 16 printable" in failed.stderr) == (1, True)
    (tmp_path / "token").write_text("0123456789abcdef\n")
    _, url = serve("--token-file", str(tmp_path / "token"))
    np.save(tmp_path / "inputs.npy", INPUTS)
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "image.png")

    def predict(*words):
        command = [sys.executable, "-m", "pinets", "encrypt", "predict", url, "--keys", "keys", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "wants a token" in predict("inputs.npy").stderr
    done = predict("inputs.npy", "--token-file", "token")
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["inputs.npy", "inputs.npy"]
    assert "not square images: give a .npy file" in predict("image.png", "--token-file", "token").stderr


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def nginx_example() -> str:
    (example,) = re.findall(r"^```nginx\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return example


@pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("openssl")), reason="there is no nginx or openssl")
def test_the_nginx_of_the_documentation(running, images, tmp_path, monkeypatch):
    """TLS by nginx, keys and ciphertexts through it, and its own refusal of what is too large."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    certificate = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "1", "-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", "key.pem", "-out", "cert.pem", *certificate],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    server = nginx_example()
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name example.org": "server_name localhost",
        "/etc/ssl/example.org.pem": str(tmp_path / "cert.pem"),
        "/etc/ssl/example.org.key": str(tmp_path / "key.pem"),
        "http://127.0.0.1:8000": running.url,
    }.items():
        assert server.count(old) == 1, old
        server = server.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""  # else nobody, who may not enter this folder
    (tmp_path / "nginx.conf").write_text(
        f"{user}daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{server}\n}}\n"
    )
    nginx = subprocess.Popen(["nginx", "-e", str(tmp_path / "error.log"), "-c", str(tmp_path / "nginx.conf")])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    try:
        eventually(lambda: listens(port))
        client = RemoteClient(
            f"https://localhost:{port}", cache=tmp_path / "keys", insecure=True, progress=lambda *_: None
        )
        np.testing.assert_allclose(client.predict(images), running.plain(images / 255), atol=1e-3)
        with pytest.raises(ServiceError), client._ask("POST", "/keys", bytes(33 << 20)):
            pass
    finally:
        nginx.terminate()
        nginx.wait(10)
