"""The client of a service: makes keys once, sends them once, and then only ciphertexts."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from pinets._files import PathLike, user_cache, write_bytes
from pinets.encrypted.backend import Vector
from pinets.encrypted.client import Client
from pinets.encrypted.container import Container, kind_of, read_containers
from pinets.encrypted.errors import EncryptedError, PlanError
from pinets.encrypted.folders import EVALUATION_KEYS, PLAN, SECRET_KEY, make_key_files, open_client
from pinets.encrypted.plan import Plan
from pinets.encrypted.preparation import Preparation

__all__ = ["RemoteClient", "ServiceError"]

_CHUNK = 1 << 18
_LARGEST_TEXT = 1 << 24  # bytes of a plan or an error
_SENT = "sent.json"  # the ids that services gave to the keys


class ServiceError(EncryptedError):
    """The service refused a request, or cannot be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RemoteClient:
    """Classifies inputs with a network that runs elsewhere, on a server that cannot read them.

    Keys are made at the first use and kept in a folder of the plan, readable by their owner alone. Requests that find
    the service busy are sent again for a while.

    Args:
        url: The address of the service, such as ``http://localhost:8000``.
        token: The token, if the service wants one.
        cache: Where keys are kept; by default in the user's cache.
        seconds: How long to wait for an answer, and for a busy service.
        insecure: Accept a plan that is not secure, for tests.
        progress: Called with a title, the bytes sent, and all bytes of an upload; None shows a bar.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        cache: PathLike | None = None,
        seconds: float = 300.0,
        insecure: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        wanted = f"the address of a service is http://... or https://..., got {url!r}"
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018  # a port that cannot be raises
        except ValueError as error:
            raise ValueError(f"{wanted}: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(wanted)
        self.url, self._parts, self._seconds = url.rstrip("/"), parts, seconds
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._progress = progress
        with self._ask("GET", "/plan") as answer:
            told = _json(answer.read(_LARGEST_TEXT))
        try:
            self.plan = Plan.from_json(told["plan"])
            self.preparation = Preparation.from_json(told["preparation"])
            self._inputs = told["limits"]["inputs"]
        except (KeyError, TypeError) as error:
            raise ServiceError(f"{url} is not a service of pinets: it tells no {error}") from error
        if type(self._inputs) is not int or self._inputs < 1:
            raise ServiceError(f"{url} must take at least 1 input in a request, and tells {self._inputs!r}")
        if self.plan.parameters.insecure and not insecure:
            raise PlanError("the plan of this service is for tests and not secure: anybody could read the ciphertexts")
        self.folder = Path(cache or user_cache("service")) / self.plan.identity
        self._client = self._open()

    def predict(self, inputs: Vector | NDArray[np.uint8]) -> Vector:
        """The outputs of the network: one row for each input.

        Args:
            inputs: A batch of inputs as the network takes them, or images (number, channels, height, width) of bytes.
        """
        given: Any = np.asarray(inputs)
        prepared = self.preparation(given) if given.dtype == np.uint8 else given
        step = self._inputs * self.plan.batch
        outputs = [self._predict_some(prepared[at : at + step]) for at in range(0, len(prepared), step)]
        return np.concatenate(outputs) if outputs else np.empty((0, self.plan.outputs))

    def _predict_some(self, inputs: Vector) -> Vector:
        request = self._client.encrypt(inputs)
        try:
            return self._evaluate(self._key_id(renew=False), request, len(inputs))
        except ServiceError as error:
            if error.status != 404:
                raise
        # the service has removed the keys
        return self._evaluate(self._key_id(renew=True), request, len(inputs))

    def _evaluate(self, key_id: str, request: bytes, count: int) -> Vector:
        rows: list[Vector] = []
        parameters = self.plan.parameters
        at_most = self.plan.rows * parameters.ciphertext_bytes() + (1 << 16)
        with self._ask("POST", f"/evaluate/{key_id}", request) as answer:
            for content in read_containers(answer.read, at_most, "the answer"):
                if kind_of(content) == "error":
                    raise ServiceError(str(Container.from_bytes(content, "error", "the answer").facts.get("message")))
                rows.append(self._client.decrypt(content))
        outputs = np.concatenate(rows) if rows else np.empty((0, self.plan.outputs))
        if len(outputs) != count:
            raise ServiceError(f"the service answered {len(outputs)} of {count} inputs, and was then cut off")
        return outputs

    # Keys

    def _open(self) -> Client:
        """The client with the keys of this plan, which are made if there are none."""
        if not self.folder.exists():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            # made beside it, so that another process finds all files or none
            with tempfile.TemporaryDirectory(prefix=".", dir=self.folder.parent) as name:  # has owner-only rights
                made = Path(name)
                write_bytes(made / PLAN, json.dumps(self.plan.to_json()).encode())
                make_key_files(made, made / EVALUATION_KEYS)
                (made / EVALUATION_KEYS).chmod(0o600)
                try:
                    made.rename(self.folder)
                except OSError:  # another process was faster
                    if not (self.folder / SECRET_KEY).exists():
                        raise
        return open_client(self.folder)

    def _key_id(self, *, renew: bool) -> str:
        """The id that the service gave to the keys; they are sent if it does not have them."""
        known = self._sent()
        if renew or self.url not in known:
            content = (self.folder / EVALUATION_KEYS).read_bytes()
            with self._ask("POST", "/keys", content, title="sending keys") as answer:
                told = _json(answer.read(_LARGEST_TEXT))
            if "id" not in told:
                raise ServiceError(f"{self.url} took the keys and gave no id for them")
            known[self.url] = str(told["id"])
            path = self.folder / _SENT
            write_bytes(path, json.dumps(known).encode())
            path.chmod(0o600)
        return str(known[self.url])

    def _sent(self) -> dict[str, Any]:
        try:
            known = json.loads((self.folder / _SENT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    # HTTP

    @contextmanager
    def _ask(
        self, method: str, path: str, body: bytes | None = None, title: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, again while the service is busy; anything but success is an error."""
        end = time.monotonic() + self._seconds
        while True:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._seconds)
            try:
                answer = self._send(connection, method, path, body, title)
                if answer.status < 300:
                    yield answer
                    return
                text = answer.read(_LARGEST_TEXT)
                wait = _seconds(answer.headers.get("Retry-After"))
                if answer.status != 503 or time.monotonic() + wait > end:
                    reason = _json(text, otherwise={}).get("error", answer.reason)
                    raise ServiceError(f"{self.url}: {reason} (status {answer.status})", answer.status)
            except ConnectionRefusedError as error:
                raise ServiceError(f"{self.url}: nothing listens there; start `pinets encrypt serve`") from error
            except (OSError, http.client.HTTPException) as error:
                raise ServiceError(f"{self.url}: {error or type(error).__name__}") from error
            finally:
                connection.close()
            time.sleep(wait)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, title: str
    ) -> http.client.HTTPResponse:
        headers = dict(self._headers)
        if body is not None:
            headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(len(body))}
        pieces = None if body is None else self._pieces(body, title)
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent: the answer says why
            connection.request(method, self._parts.path.rstrip("/") + path, body=pieces, headers=headers)
        return connection.getresponse()

    def _pieces(self, body: bytes, title: str) -> Iterator[bytes]:
        """The pieces of a body; shows how many are sent if there is a title."""
        starts = range(0, len(body), _CHUNK)
        if title and self._progress is None:
            from pinets._progress import track

            starts = track(starts, title, unit="× 256 kB")  # type: ignore[assignment]
        for start in starts:
            yield body[start : start + _CHUNK]
            if title and self._progress is not None:
                self._progress(title, min(start + _CHUNK, len(body)), len(body))


def _json(content: bytes, otherwise: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    if otherwise is None:
        raise ServiceError("the service answered something else than JSON")
    return otherwise


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After."""
    return min(float(text), 60.0) if text and text.isdecimal() else 1.0
