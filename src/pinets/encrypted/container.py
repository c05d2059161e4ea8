"""Containers: the bytes that client and server exchange, with a version and a checksum.

A container is a line of magic, the length of a JSON header, the header, the parts, and a SHA-256 of all of these. The
header gives the kind of content, the plan and keys it belongs to, and the sizes of the parts. The checksum detects
accidents, not attacks, since an attacker can compute it as well: exchange files over an authenticated channel.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pinets.encrypted.errors import FileError, KeyMismatchError

__all__ = ["Container", "container_bytes", "kind_of", "naming", "read_containers"]

_MAGIC = b"pinets encrypted\n"
_VERSION = 2
_LENGTH = struct.Struct("<Q")
_DIGEST = hashlib.sha256().digest_size
_LONGEST_HEADER = 1 << 24


@dataclass(frozen=True)
class Container:
    """The content of a file or a message.

    Its kind is ``"secret key"``, ``"evaluation keys"``, ``"inputs"``, ``"outputs"``, ``"circuit"``, or ``"error"`` for
    one that a server met after the first outputs.
    """

    kind: str
    plan: str  # the identity of the plan that the content belongs to
    keys: str  # the same of the keys; empty for a circuit
    parts: Mapping[str, bytes] = field(repr=False)
    facts: dict[str, Any] = field(default_factory=dict)  # further JSON values of the header

    def pieces(self) -> list[bytes]:
        """The serialised container in pieces, so that large parts need not be joined in memory."""
        header = {
            "version": _VERSION,
            "kind": self.kind,
            "plan": self.plan,
            "keys": self.keys,
            "facts": self.facts,
            "parts": [[name, len(part)] for name, part in self.parts.items()],
        }
        text = json.dumps(header, sort_keys=True).encode()
        pieces = [_MAGIC, _LENGTH.pack(len(text)), text, *self.parts.values()]
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        return [*pieces, digest.digest()]

    def to_bytes(self) -> bytes:
        """The serialised container."""
        return b"".join(self.pieces())

    @classmethod
    def from_bytes(cls, content: bytes, kind: str, source: object, *, most_parts: int | None = None) -> Container:
        """Read a container of the given kind; errors name the source.

        A longer header than ``most_parts`` need is refused before it is read: a list of a million empty parts would
        take far more memory than its bytes.
        """
        view = memoryview(content)
        if bytes(view[: len(_MAGIC)]) != _MAGIC:
            raise FileError(f"{source} is not a file of pinets encrypt")
        longest = _LONGEST_HEADER if most_parts is None else container_bytes(most_parts)
        length = int.from_bytes(view[len(_MAGIC) : len(_MAGIC) + _LENGTH.size], "little")
        if length > longest:
            raise FileError(f"{source} has a header of {length} bytes, and at most {longest} are expected")
        if kind != "secret key" and kind_of(content) == "secret key":
            raise FileError(f"{source} holds a secret key, not {kind}: it must never leave the client")
        body, digest = view[:-_DIGEST], view[-_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            raise FileError(f"{source} is truncated or was changed: its checksum differs")
        try:
            return cls._from_body(body[len(_MAGIC) :], kind, source)
        except FileError:  # is a ValueError as well
            raise
        except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileError(f"{source} has a malformed header, though its checksum is right") from error

    @classmethod
    def _from_body(cls, body: memoryview, kind: str, source: object) -> Container:
        (length,) = _LENGTH.unpack(body[: _LENGTH.size])
        start = _LENGTH.size + length
        header = json.loads(bytes(body[_LENGTH.size : start]))
        if header["version"] != _VERSION:
            raise FileError(f"{source} is of version {header['version']}, this is version {_VERSION}")
        if header["kind"] != kind:
            raise FileError(f"{source} holds {header['kind']}, not {kind}")
        if not all(isinstance(header[name], str) for name in ("plan", "keys")):
            raise TypeError("plan and keys are texts")
        parts, at = {}, start
        for name, size in header["parts"]:
            if type(size) is not int or size < 0 or name in parts:
                raise ValueError("sizes are whole numbers, and names differ")
            parts[name] = bytes(body[at : at + size])
            at += size
        if at != len(body):
            raise FileError(f"{source} is longer or shorter than its header says")
        return cls(kind, header["plan"], header["keys"], parts, dict(header["facts"]))

    def require(
        self, *, plan: str, keys: str | None = None, parts: Collection[str] = (), source: object = "the file"
    ) -> Container:
        """Return the container if it belongs to this plan and these keys, and has these parts."""
        if self.plan != plan:
            raise KeyMismatchError(f"{source} belongs to another plan than the one here")
        if keys is not None and self.keys != keys:
            raise KeyMismatchError(f"{source} belongs to other keys than the ones here")
        if missing := [name for name in parts if name not in self.parts]:
            raise FileError(f"{source} has no part {missing[0]!r}, though its checksum is right")
        return self


def container_bytes(parts: int) -> int:
    """The most bytes that a container adds to so many parts."""
    return (1 << 14) + 64 * parts


def kind_of(content: bytes) -> str | None:
    """The kind that the header of a container gives, whether or not the rest is there; None without a header."""
    try:
        (length,) = _LENGTH.unpack_from(content, len(_MAGIC))
        start = len(_MAGIC) + _LENGTH.size
        header = json.loads(content[start : start + min(length, _LONGEST_HEADER)])
        return str(header["kind"]) if content.startswith(_MAGIC) else None
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None


def read_containers(read: Callable[[int], bytes], at_most: int, source: object) -> Iterator[bytes]:
    """Split a stream into the containers that it consists of, each of at most so many bytes; errors name the source.

    ``read`` gives up to a number of bytes of the stream, and none at its end.
    """
    while start := _read_all(read, len(_MAGIC) + _LENGTH.size):
        if len(start) < len(_MAGIC) + _LENGTH.size or not start.startswith(_MAGIC):
            raise FileError(f"{source} is not a stream of files of pinets encrypt")
        (length,) = _LENGTH.unpack_from(start, len(_MAGIC))
        if length > min(at_most, _LONGEST_HEADER):
            raise FileError(f"{source} has a header of {length} bytes, which is too long")
        header = _read_all(read, length)
        try:
            size = sum(int(part[1]) for part in json.loads(header)["parts"])
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
            raise FileError(f"{source} has a malformed header, or was cut off") from error
        if not 0 <= size <= at_most:
            raise FileError(f"{source} has parts of {size} bytes, and at most {at_most} are expected")
        yield start + header + _read_all(read, size + _DIGEST)


def _read_all(read: Callable[[int], bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Name the place in a :class:`FileError` that is raised inside."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{place}: {error}") from error
