"""The HTTP application: limits first, then bodies; evaluation in worker processes; errors that name the rule."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from pinets.encrypted.compact import looks_like_secret_key
from pinets.encrypted.container import Container, container_bytes, kind_of
from pinets.encrypted.errors import EncryptedError
from pinets.encrypted.folders import read_plan
from pinets.encrypted.preparation import read_preparation
from pinets.encrypted.server import key_file_bytes, request_bytes, split_inputs
from pinets.encrypted.service import wasm
from pinets.encrypted.service.answers import Metrics, Stream, answered, disconnected
from pinets.encrypted.service.limits import Limits
from pinets.encrypted.service.openapi import describe
from pinets.encrypted.service.pool import Pool, WorkerError
from pinets.encrypted.service.store import KeyStore

__all__ = ["Limits", "Service", "make_app"]

log = logging.getLogger("pinets.service")

PAGE = Path(__file__).parent / "page"
_PAGE_FILES = {path.name for path in PAGE.iterdir()}
_PURGE_SECONDS = 60.0
_RETRY_SECONDS = 5  # Retry-After while the speed of the service is not known
# The page loads nothing from elsewhere, and sends nothing elsewhere.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Service:
    """One network behind HTTP; the arguments are those of :func:`make_app`."""

    def __init__(self, folder: Path, store: Path, *, workers: int, limits: Limits, token: str | None) -> None:
        self.plan, self.limits, self._token = read_plan(folder), limits, token
        self.preparation = read_preparation(folder)
        self.store = KeyStore(store, quota=limits.key_quota, seconds=limits.key_seconds)
        self._waiting = self._uploads = 0
        self._pace = 0.0  # seconds for one ciphertext, as observed
        gauges: dict[tuple[str, str], Callable[[], float]] = {
            ("pinets_waiting_requests", "Requests that wait or are evaluated."): lambda: self._waiting,
            ("pinets_stored_keys", "Clients with evaluation keys on disk."): lambda: len(self.store),
            ("pinets_stored_key_bytes", "Bytes of evaluation keys on disk."): lambda: self.store.size,
            ("pinets_workers", "Worker processes that are ready or at work."): lambda: self.pool.alive,
        }
        self.metrics = Metrics(gauges)
        self.pool = Pool(
            folder,
            workers=workers,
            keep=limits.keys_in_memory,
            seconds=limits.evaluate_seconds,
            on_death=self.metrics.worker_deaths.inc,
        )
        self._largest_keys = key_file_bytes(self.plan) + container_bytes(2)
        parts = limits.inputs * self.plan.parts
        self._largest_request = request_bytes(self.plan, limits.inputs) + container_bytes(parts)

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        await self.pool.start()
        purge = asyncio.create_task(self._purge())
        try:
            yield
        finally:
            purge.cancel()
            await self.pool.close()

    async def _purge(self) -> None:
        while True:
            await asyncio.sleep(_PURGE_SECONDS)
            self.store.remove_expired()

    # What anybody may read

    async def health(self, _: Request) -> Response:
        alive = self.pool.alive
        return JSONResponse({"workers": alive, "waiting": self._waiting}, 200 if alive else 503)

    async def get_plan(self, _: Request) -> Response:
        return JSONResponse(
            {
                "identity": self.plan.identity,
                "plan": self.plan.to_json(),
                "preparation": self.preparation.to_json(),
                "needs_token": self._token is not None,
                "limits": {
                    "inputs": self.limits.inputs,
                    "key_bytes": self._largest_keys,
                    "request_bytes": self._largest_request,
                },
            }
        )

    async def get_metrics(self, request: Request) -> Response:
        self._require_token(request)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def get_description(self, _: Request) -> Response:
        return JSONResponse(describe(self.plan, needs_token=self._token is not None))

    async def get_page(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params.get("name", "index.html")
        if name not in _PAGE_FILES:
            raise HTTPException(404, f"there is no file {name!r} of the page")
        return FileResponse(PAGE / name, headers=_HEADERS)

    async def get_seal(self, request: Request) -> Response:
        """A file of SEAL for browsers, where it is installed."""
        name = request.path_params["name"]
        if name not in wasm.FILES:
            raise HTTPException(404, f"there is no file {name!r} of SEAL")
        if not (wasm.folder() / name).is_file():
            raise HTTPException(404, f"SEAL for browsers is not installed here: run {wasm.COMMAND}")
        return FileResponse(wasm.folder() / name, headers={"Cache-Control": "max-age=86400"})

    # Keys

    async def add_keys(self, request: Request) -> Response:
        """Store a client's evaluation keys."""
        self._require_token(request)
        if self._uploads >= self.limits.uploads:
            raise self._busy(f"{self.limits.uploads} uploads of keys are under way, no more fit")
        self._uploads += 1
        try:
            size = self._announced(request, self._largest_keys)
            with self.store.upload(size) as upload:
                start, longest = b"", container_bytes(2)
                async for piece in self._body(request, size):
                    if len(start) < longest:
                        start += piece[:longest]
                    await run_in_threadpool(upload.write, piece)
                if kind_of(start) == "secret key":
                    raise HTTPException(400, "this is a secret key: it must never leave the client; nothing was stored")
                path = await run_in_threadpool(upload.finish)
                if await run_in_threadpool(lambda: looks_like_secret_key(path.read_bytes())):
                    raise HTTPException(
                        400, "there is a secret key inside: it must never leave the client; nothing stored"
                    )
                identity = await self.pool.run(path)
                name = upload.keep()
            log.info("keys %s… stored", name[:8])
            expires = self.limits.key_seconds
            return JSONResponse({"id": name, "keys": identity.decode(), "expires_in_seconds": expires}, 201)
        finally:
            self._uploads -= 1

    # Evaluation

    async def evaluate(self, request: Request) -> Response:
        """Evaluate encrypted inputs; each output is sent as soon as it is there."""
        self._require_token(request)
        held = self._hold(request.path_params["id"])
        path = next(held)
        try:
            body = bytearray()
            async for piece in self._body(request, self._announced(request, self._largest_request)):
                body += piece
            groups = await run_in_threadpool(split_inputs, bytes(body), self.plan, self.limits.inputs)
            if len(groups) > self.limits.inputs:
                raise HTTPException(413, f"at most {self.limits.inputs} inputs in a request, got {len(groups)}")
            start = time.monotonic()
            outputs = self._outputs(path, groups)
            first = await self._unless_gone(anext(outputs), request)
            self.metrics.seconds.observe(time.monotonic() - start)
        except BaseException:
            held.close()
            raise
        return Stream(self._with_errors(first, outputs), held.close, self.limits.idle_seconds)

    def _hold(self, name: str) -> Any:
        """A generator that holds a place in the queue, and the keys, until it is closed."""
        if self._waiting >= self.limits.waiting:
            raise self._busy(f"{self.limits.waiting} requests are waiting, no more fit")
        self._waiting += 1
        try:
            with self.store.using(name) as path:
                yield path
        except KeyError:
            raise HTTPException(404, "there are no keys with this id, or they have expired: send them again") from None
        finally:
            self._waiting -= 1

    async def _outputs(self, path: Path, groups: list[bytes]) -> AsyncIterator[bytes]:
        """The outputs in order; as many are evaluated at once as there are workers."""
        running: list[asyncio.Task[bytes]] = []
        try:
            for group in groups:
                running.append(asyncio.create_task(self._evaluate_one(path, group)))
                if len(running) == self.pool.size:
                    yield await running.pop(0)
            while running:
                yield await running.pop(0)
        finally:
            for task in running:  # the client is gone, or one failed
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _evaluate_one(self, path: Path, group: bytes) -> bytes:
        start = time.monotonic()
        output = await self.pool.run(path, group)
        seconds = (time.monotonic() - start) / max(1, self._waiting)
        self._pace = seconds if not self._pace else 0.9 * self._pace + 0.1 * seconds
        self.metrics.evaluated.inc()
        return output

    async def _with_errors(self, first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """All outputs; an error after the first, when the status is sent already, becomes the last part."""
        self.metrics.sent.inc(len(first))
        yield first
        try:
            async for output in others:
                self.metrics.sent.inc(len(output))
                yield output
        except (EncryptedError, WorkerError, FileNotFoundError) as error:
            yield Container("error", self.plan.identity, "", {}, {"message": str(error)}).to_bytes()

    async def _unless_gone(self, work: Awaitable[bytes], request: Request) -> bytes:
        """The result of some work, which is stopped when the client goes away."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnect
            return task.result()
        finally:
            for one in (task, gone):
                one.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    # Limits

    def _announced(self, request: Request, at_most: int) -> int:
        """The size of the body that the client announces, or the largest there may be; a larger one is refused."""
        try:
            size = int(request.headers.get("content-length", at_most))
        except ValueError:
            raise HTTPException(400, "Content-Length must be a number") from None
        if size > at_most:
            raise HTTPException(413, f"at most {at_most} bytes, got {size}", {"Connection": "close"})
        return size

    async def _body(self, request: Request, at_most: int) -> AsyncIterator[bytes]:
        """The pieces of a body, as long as they keep to the limits."""
        limits, received = self.limits, 0
        end = time.monotonic() + limits.upload_seconds
        pieces = request.stream()
        while True:
            try:
                piece = await asyncio.wait_for(anext(pieces), min(limits.idle_seconds, end - time.monotonic()))
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"the body must arrive within {limits.upload_seconds:g} seconds, with pauses of at most "
                    f"{limits.idle_seconds:g}",
                    {"Connection": "close"},
                ) from None
            received += len(piece)
            if received > at_most:
                raise HTTPException(413, f"at most {at_most} bytes", {"Connection": "close"})
            self.metrics.received.inc(len(piece))
            if piece:
                yield piece

    def _busy(self, why: str) -> HTTPException:
        seconds = math.ceil(self._pace * self._waiting) or _RETRY_SECONDS
        return HTTPException(503, f"{why}: come back later", {"Retry-After": str(seconds), "Connection": "close"})

    def _require_token(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        wanted = f"Bearer {self._token}"
        if self._token is not None and not hmac.compare_digest(given.encode(), wanted.encode()):
            raise HTTPException(401, "this service wants a token", {"WWW-Authenticate": "Bearer"})


def make_app(
    folder: Path, store: Path, *, workers: int = 1, limits: Limits | None = None, token: str | None = None
) -> Starlette:
    """The application for a server's folder, to be run by any ASGI server in one process.

    Args:
        folder: The server's folder, with plan and circuit, as ``pinets encrypt plan --out`` writes it.
        store: Where evaluation keys are kept.
        workers: The number of worker processes.
        limits: The limits; by default :class:`Limits`.
        token: What clients must send as a bearer token; None for an open service.
    """
    service = Service(Path(folder), Path(store), workers=workers, limits=limits or Limits(), token=token)
    endpoints = [
        ("/", "GET", service.get_page),
        ("/plan", "GET", service.get_plan),
        ("/keys", "POST", service.add_keys),
        ("/evaluate/{id}", "POST", service.evaluate),
        ("/health", "GET", service.health),
        ("/metrics", "GET", service.get_metrics),
        ("/openapi.json", "GET", service.get_description),
        ("/page/{name}", "GET", service.get_page),
        ("/seal/{name}", "GET", service.get_seal),
    ]
    routes = [
        Route(path, answered(endpoint, service.metrics, path), methods=[method]) for path, method, endpoint in endpoints
    ]
    app = Starlette(routes=routes, lifespan=service.running)
    app.state.service = service
    return app
