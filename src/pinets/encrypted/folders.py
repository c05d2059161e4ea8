"""Client and server as folders: a thin layer of files above the bytes of client.py and server.py.

A client's folder holds ``plan.json`` and ``secret.key``; a server's folder holds ``plan.json``, ``network.circuit`` and
the client's ``evaluation.keys``.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from pinets._files import PathLike, replacing, write_bytes, write_pieces
from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Circuit, circuit_from_container, circuit_to_container
from pinets.encrypted.client import Client, make_keys
from pinets.encrypted.container import Container, kind_of
from pinets.encrypted.errors import FileError
from pinets.encrypted.plan import Plan
from pinets.encrypted.server import Server

__all__ = [
    "EVALUATION_KEYS",
    "SECRET_KEY",
    "decrypt_file",
    "encrypt_file",
    "evaluate_file",
    "make_key_files",
    "open_client",
    "read_circuit",
    "read_container",
    "read_plan",
    "require_no_secret_key",
    "write_container",
    "write_plan",
]

PLAN, CIRCUIT, SECRET_KEY, EVALUATION_KEYS = "plan.json", "network.circuit", "secret.key", "evaluation.keys"
_START = 1 << 24  # bytes of a file that tell its kind


# Plans and circuits


def write_plan(plan: Plan, circuit: Circuit, *, client: PathLike, server: PathLike) -> None:
    """Write the plan to both folders and the circuit to the server's, unless they hold keys of another plan."""
    content = (json.dumps(plan.to_json(), indent=1) + "\n").encode()
    for folder in (client, server):
        _require_no_keys_of_another_plan(Path(folder), plan)
        _require_same_kind(Path(folder) / PLAN, "plan")
    _require_same_kind(Path(server) / CIRCUIT, "circuit")
    for folder in (client, server):
        write_bytes(Path(folder) / PLAN, content)
    write_container(Path(server) / CIRCUIT, circuit_to_container(circuit, plan.identity))


def read_plan(folder: PathLike) -> Plan:
    """The plan in a client's or a server's folder."""
    path = Path(folder) / PLAN
    if not path.is_file():
        raise FileNotFoundError(f"there is no {PLAN} in {folder}; `pinets encrypt plan ... --out` writes it")
    try:
        return Plan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not a plan: {error}") from error


def read_circuit(folder: PathLike) -> tuple[Plan, Circuit]:
    """The plan and the circuit in a server's folder."""
    plan, path = read_plan(folder), Path(folder) / CIRCUIT
    container = read_container(path, "circuit").require(plan=plan.identity, source=path)
    return plan, circuit_from_container(container, path)


def _require_no_keys_of_another_plan(folder: Path, plan: Plan) -> None:
    keys = next((folder / name for name in (SECRET_KEY, EVALUATION_KEYS) if (folder / name).exists()), None)
    if keys and (folder / PLAN).exists() and read_plan(folder).identity != plan.identity:
        raise FileExistsError(
            f"{keys} belongs to {folder / PLAN}, which differs from this plan: move both away first, or plan into "
            "another folder"
        )


# Keys


def make_key_files(folder: PathLike, evaluation_keys: PathLike) -> None:
    """Make the keys for the plan in a client's folder.

    Args:
        folder: The client's folder; gets the secret key, readable by its owner alone.
        evaluation_keys: The file to write for the server.
    """
    plan, secret_path = read_plan(folder), Path(folder) / SECRET_KEY
    require_no_secret_key(folder)
    _require_same_kind(evaluation_keys, "evaluation keys")
    secret, evaluation = make_keys(plan)
    # The large file first: if the disk is full, no secret key is left behind. It appears last: if another process has
    # made keys meanwhile, the files of that process stay.
    created = False
    try:
        with replacing(evaluation_keys) as temporary:
            _write_new(temporary, evaluation)
            _write_new(secret_path, secret, private=True)
            created = True
    except FileExistsError:
        require_no_secret_key(folder)
        raise
    except BaseException:
        if created:
            secret_path.unlink(missing_ok=True)
        raise


def _write_new(path: Path, container: Container, *, private: bool = False) -> None:
    """Create a file, which must not exist; a private one has owner-only rights. No incomplete file is left behind."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(container.pieces())
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def require_no_secret_key(folder: PathLike) -> None:
    """Refuse to replace a secret key."""
    if (path := Path(folder) / SECRET_KEY).exists():
        raise FileExistsError(f"{path} exists, and what it encrypted is lost without it: move it away first")


# Inputs and outputs


def open_client(folder: PathLike) -> Client:
    """The client with the plan and the secret key in a folder."""
    path = Path(folder) / SECRET_KEY
    return Client(read_plan(folder), _read(path, "secret key"), source=path)


def encrypt_file(
    inputs: Vector, client: PathLike, target: PathLike, *, source: PathLike | None = None, allow: bool = False
) -> None:
    """Encrypt a batch of inputs with the key in a client's folder, and write the file for the server.

    Args:
        inputs: A batch of inputs.
        client: The client's folder.
        target: The file to write.
        source: The file that the inputs were read from, which is not replaced.
        allow: Warn of inputs outside a proven range instead of refusing them.
    """
    _require_other_file(target, "inputs", client, source)
    write_bytes(target, open_client(client).encrypt(inputs, allow=allow))


def evaluate_file(source: PathLike, server: PathLike, target: PathLike, *, workers: int | None = None) -> None:
    """Evaluate the network in a server's folder on a file of encrypted inputs, and write the encrypted outputs."""
    _require_other_file(target, "outputs", server, source)
    path = Path(server) / EVALUATION_KEYS
    evaluator = Server(*read_circuit(server), workers=workers)
    keys = evaluator.load_keys(_read(path, "evaluation keys"), source=path)
    write_bytes(target, evaluator.evaluate(_read(source, "inputs"), keys, source=source))


def decrypt_file(source: PathLike, client: PathLike, target: PathLike | None = None) -> Vector:
    """Decrypt a file of the server's, one row for each input; also write a .npy file if ``target`` is given."""
    if target is not None:
        _require_other_file(target, "array", client, source)
    outputs = open_client(client).decrypt(_read(source, "outputs"), source=source)
    if target is not None:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(outputs), allow_pickle=False)
        write_bytes(target, buffer.getvalue())
    return outputs


def _require_other_file(target: PathLike, kind: str, folder: PathLike, source: PathLike | None = None) -> None:
    """Refuse to replace what is read, the keys and plans, and files of another kind."""
    path = Path(target).resolve()
    if source is not None and path == Path(source).resolve():
        raise FileExistsError(f"{target} would replace what it is made from")
    if path.exists() and path.parent == Path(folder).resolve():
        raise FileExistsError(f"{target} would replace a file beside the keys and the plan; name another")
    _require_same_kind(target, kind)


def _require_same_kind(target: PathLike, kind: str) -> None:
    """Refuse to replace a file that is of another kind."""
    if (path := Path(target)).exists() and (found := _kind(path)) != kind:
        raise FileExistsError(f"{target} would be replaced by a file of kind {kind!r}, and holds {found}; name another")


def _kind(path: Path) -> str:
    """The kind of a file that is there: of a container, or ``"plan"`` or ``"array"``."""
    if not path.is_file():
        return "a folder"
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(np.lib.format.MAGIC_PREFIX):
        return "array"
    with suppress(ValueError, RecursionError):
        if isinstance(content := json.loads(start), dict) and "format" in content:
            return "plan"
    return kind_of(start) or "something else"


# Containers


def write_container(path: PathLike, container: Container) -> None:
    """Write a container atomically."""
    write_pieces(path, container.pieces())


def read_container(path: PathLike, kind: str) -> Container:
    """Read a container of the given kind; errors name the file."""
    return Container.from_bytes(_read(path, kind), kind, path)


def _read(path: PathLike, kind: str) -> bytes:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path} ({kind})")
    return Path(path).read_bytes()
