"""Encrypted inference over HTTP: a server, a page that encrypts in the browser, and a client in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinets._extras import lazily

if TYPE_CHECKING:
    from pinets.encrypted.service.app import make_app as make_app
    from pinets.encrypted.service.limits import Limits as Limits
    from pinets.encrypted.service.remote import RemoteClient as RemoteClient
    from pinets.encrypted.service.remote import ServiceError as ServiceError
    from pinets.encrypted.service.run import serve as serve

_HOMES = {
    "pinets.encrypted.service.app": ("make_app",),
    "pinets.encrypted.service.limits": ("Limits",),
    "pinets.encrypted.service.remote": ("RemoteClient", "ServiceError"),
    "pinets.encrypted.service.run": ("serve",),
}
__getattr__, __dir__ = lazily(__name__, _HOMES)  # a client needs no server's libraries

__all__ = ["Limits", "RemoteClient", "ServiceError", "make_app", "serve"]
