"""Answers of the service: errors as JSON with a status, streams that release what they hold, and counters."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from pinets.encrypted.errors import EncryptedError, KeyMismatchError
from pinets.encrypted.service.pool import WorkerError, WorkerTimeoutError
from pinets.encrypted.service.store import StoreFullError

__all__ = ["Metrics", "Stream", "answered", "disconnected"]

log = logging.getLogger("pinets.service")

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 150)


class Metrics:
    """The counters of a service, in the text format of Prometheus. No label tells about a client or an input.

    Args:
        gauges: Functions that are called for every answer, by name and explanation.
    """

    def __init__(self, gauges: dict[tuple[str, str], Callable[[], float]]) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "pinets_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self.received = Counter("pinets_received_bytes", "Bytes of bodies received.", registry=self._registry)
        self.sent = Counter("pinets_sent_bytes", "Bytes of encrypted outputs sent.", registry=self._registry)
        self.evaluated = Counter("pinets_evaluated", "Ciphertexts or sets evaluated.", registry=self._registry)
        self.worker_deaths = Counter("pinets_worker_deaths", "Worker processes that ended.", registry=self._registry)
        self.seconds = Histogram(
            "pinets_evaluate_seconds",
            "Time from a whole request to its first output.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        for (name, explanation), function in gauges.items():
            Gauge(name, explanation, registry=self._registry).set_function(function)

    def text(self) -> bytes:
        """All values."""
        return generate_latest(self._registry)


class Stream(StreamingResponse):
    """A streamed answer that releases what it holds in the end, also if it is never read.

    Args:
        content: The pieces of the answer.
        release: Called in the end.
        idle_seconds: How long the client may leave a piece unread; then the answer ends.
    """

    def __init__(self, content: AsyncIterator[bytes], release: Callable[[], None], idle_seconds: float) -> None:
        super().__init__(content, media_type="application/octet-stream")
        self._release, self._idle_seconds = release, idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            await asyncio.wait_for(send(message), self._idle_seconds)

        try:
            await super().__call__(scope, receive, send_soon)
        except TimeoutError:
            log.warning("an answer was not read for %g seconds and ends", self._idle_seconds)
        finally:
            self._release()


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def answered(endpoint: Callable[[Request], Awaitable[Response]], metrics: Metrics, route: str) -> Any:
    """An endpoint whose errors are answers, counted and logged without anything that a client sent."""

    async def answer(request: Request) -> Response:
        start = time.monotonic()
        try:
            response = await endpoint(request)
        except ClientDisconnect:
            response = Response(status_code=499)  # nobody reads it; counted as nginx does
        except Exception as error:
            response = _as_response(error)
        metrics.requests.labels(route, str(response.status_code)).inc()
        log.info("%s %s %d, %.0f ms", request.method, route, response.status_code, 1e3 * (time.monotonic() - start))
        return response

    return answer


def _as_response(error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    statuses: list[tuple[type[Exception], int]] = [
        (KeyMismatchError, 409),
        (EncryptedError, 400),
        (WorkerTimeoutError, 504),
        (WorkerError, 500),
        (FileNotFoundError, 404),
        (StoreFullError, 507),
    ]
    for kind, status in statuses:
        if isinstance(error, kind):
            return JSONResponse({"error": str(error)}, status)
    if isinstance(error, OSError):  # a full disk, most likely
        log.error("%s", error.strerror)
        return JSONResponse({"error": "the keys cannot be stored here now"}, 507)
    log.error("%s: this should not have happened", type(error).__name__, exc_info=error)
    return JSONResponse({"error": "the service failed"}, 500)
