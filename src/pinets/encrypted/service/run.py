"""Run a service until it is interrupted."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

from pinets._extras import require
from pinets._files import PathLike
from pinets.encrypted.service.limits import Limits

__all__ = ["read_token", "serve"]

_GRACE_SECONDS = 10  # for requests under way when the service is stopped
_IDLE_SECONDS = 15  # how long a connection may idle between two requests


def serve(
    folder: PathLike,
    store: PathLike,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    started: Callable[[str], None] = print,
) -> None:
    """Serve a network until the process is interrupted; further arguments are those of :func:`make_app`.

    Args:
        host: The address to listen at; by default only this machine's programs can connect.
        port: The port; 0 takes a free one.
        started: Called with the address of the service once it listens.
    """
    uvicorn = require("uvicorn", extra="serve")
    require("starlette", extra="serve")
    from pinets.encrypted.service.app import make_app

    limits = limits or Limits()
    app = make_app(Path(folder), Path(store), workers=workers, limits=limits, token=token)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        access_log=False,  # it would tell ids of keys
        log_level="warning",
        server_header=False,
        limit_concurrency=4 * (limits.waiting + limits.uploads),  # connections, whatever they do
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listening])


def read_token(path: PathLike) -> str:
    """The token in a file: its only line."""
    token = Path(path).read_text(encoding="utf-8").strip()
    if not token.isascii() or not token.isprintable() or " " in token or len(token) < 16:
        raise ValueError(f"{path} must hold a token of at least 16 printable ASCII characters without spaces")
    return token
