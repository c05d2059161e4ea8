"""The files that client and server exchange: one container, with a version and a checksum.

A file is a line of magic, the length of a JSON header, the header, the parts, and a SHA-256 of all that. The header
says what kind of file it is, to which plan and keys it belongs, and how long the parts are. The checksum finds
accidents; whoever changes a file on purpose can also change that: send files through a channel that authenticates.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from pinets._files import PathLike, write_pieces
from pinets.deploy.encrypted.circuit import Affine, Circuit, Product
from pinets.deploy.encrypted.errors import FileError, KeyMismatchError

__all__ = ["Container", "naming", "read_circuit", "read_container", "write_circuit", "write_container"]

_MAGIC = b"pinets encrypted\n"
_VERSION = 1
_LENGTH = struct.Struct("<Q")
_DIGEST = hashlib.sha256().digest_size
_PIECE = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Container:
    """The content of a file.

    Attributes:
        kind: ``"secret key"``, ``"evaluation keys"``, ``"inputs"``, ``"outputs"`` or ``"circuit"``.
        plan: The identity of the plan it belongs to.
        keys: The identity of the keys it belongs to; empty for a circuit.
        parts: Bytes by name.
        facts: What else the header says.
    """

    kind: str
    plan: str
    keys: str
    parts: dict[str, bytes] = field(repr=False)
    facts: dict[str, Any] = field(default_factory=dict)

    def require(self, *, plan: str, keys: str | None = None, parts: Collection[str] = (), path: PathLike) -> Container:
        """Itself, if it belongs to this plan and these keys, and has these parts."""
        if self.plan != plan:
            raise KeyMismatchError(f"{path} belongs to another plan than the one here")
        if keys is not None and self.keys != keys:
            raise KeyMismatchError(f"{path} belongs to other keys than the ones here")
        if missing := [name for name in parts if name not in self.parts]:
            raise FileError(f"{path} has no part {missing[0]!r}, though its checksum is right")
        return self


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Say where it was that something cannot be read."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{place}: {error}") from error


def write_container(path: PathLike, container: Container, *, private: bool = False) -> None:
    """Write a file; it appears only when it is complete. A private one can be read by its owner alone."""
    header = {
        "version": _VERSION,
        "kind": container.kind,
        "plan": container.plan,
        "keys": container.keys,
        "facts": container.facts,
        "parts": [[name, len(part)] for name, part in container.parts.items()],  # in this order
    }
    text = json.dumps(header, sort_keys=True).encode()
    pieces = [_MAGIC, _LENGTH.pack(len(text)), text, *container.parts.values()]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    before = os.umask(0o077) if private else None
    try:
        write_pieces(path, [*pieces, digest.digest()])
    finally:
        if before is not None:
            os.umask(before)


def read_container(path: PathLike, kind: str) -> Container:
    """Read a file of the given kind, or say what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} ({kind})")
    with path.open("rb") as file:  # twice: keys are large, and so are in memory once
        if file.read(len(_MAGIC)) != _MAGIC:
            raise FileError(f"{path} is not a file of pinets encrypt")
        end = path.stat().st_size - _DIGEST
        if _digest(file, end) != file.read(_DIGEST):
            raise FileError(f"{path} is truncated or was changed: its checksum differs")
        try:
            return _read_parts(file, end, kind, path)
        except FileError:  # a ValueError too, but one that says what is wrong
            raise
        except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileError(f"{path} has no header that can be read, though its checksum is right") from error


def _digest(file: BinaryIO, end: int) -> bytes:
    """The checksum of a file up to a byte, at which it is left."""
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(max(0, min(_PIECE, end - file.tell()))):
        digest.update(piece)
    return digest.digest()


def _read_parts(file: BinaryIO, end: int, kind: str, path: Path) -> Container:
    file.seek(len(_MAGIC))
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    header = json.loads(file.read(min(length, end)))
    if header["version"] != _VERSION:
        raise FileError(f"{path} is of version {header['version']}, this is version {_VERSION}")
    if header["kind"] != kind:
        raise FileError(f"{path} holds {header['kind']}, not {kind}")
    sizes = [size for _, size in header["parts"]]
    if min(sizes, default=0) < 0 or sum(sizes) != end - file.tell():
        raise FileError(f"{path} is longer or shorter than its header says")
    parts = {name: file.read(size) for name, size in header["parts"]}
    return Container(kind, header["plan"], header["keys"], parts, dict(header["facts"]))


def write_circuit(path: PathLike, circuit: Circuit, plan: str) -> None:
    """Write a compiled network: the server's, it holds the weights."""
    parts: dict[str, bytes] = {}

    def described(form: Affine) -> dict[str, Any]:
        return {
            "terms": [[value, store(matrix), list(matrix.shape)] for value, matrix in form.terms.items()],
            "constant": store(form.constant),
        }

    def store(tensor: torch.Tensor) -> str:
        name = str(len(parts))
        parts[name] = tensor.contiguous().numpy().astype("<f8").tobytes()
        return name

    facts = {
        "size": circuit.size,
        "products": [[described(factor) for factor in product.factors] for product in circuit.products],
        "output": described(circuit.output),
    }
    write_container(path, Container("circuit", plan, "", parts, facts))


def read_circuit(path: PathLike, plan: str) -> Circuit:
    """Read a compiled network that belongs to a plan."""
    container = read_container(path, "circuit").require(plan=plan, path=path)

    def restored(name: str, *shape: int) -> torch.Tensor:
        return torch.from_numpy(np.frombuffer(container.parts[name], "<f8").astype(np.float64)).reshape(shape or (-1,))

    def form(described: dict[str, Any]) -> Affine:
        terms = {int(value): restored(name, *shape) for value, name, shape in described["terms"]}
        return Affine(terms, restored(described["constant"]))

    facts = container.facts
    try:
        products = tuple(Product(tuple(form(factor) for factor in factors)) for factors in facts["products"])
        circuit = Circuit(int(facts["size"]), products, form(facts["output"]))
        circuit(torch.zeros(1, circuit.size))  # matrices that do not fit together are found here
    except (ValueError, KeyError, IndexError, TypeError, RuntimeError) as error:
        raise FileError(f"{path} holds no circuit that can be read, though its checksum is right") from error
    return circuit
