"""A whole round in two folders, measured: keys, encryption, evaluation, decryption, and the plain network beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pinets._files import PathLike
from pinets._modes import evaluating
from pinets.deploy.encrypted.circuit import Circuit
from pinets.deploy.encrypted.client import EVALUATION_KEYS, Client, make_client_keys, require_no_secret_key
from pinets.deploy.encrypted.plan import Plan
from pinets.deploy.encrypted.server import Server, write_plan

__all__ = ["Trial", "run_trial"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Trial:
    """What came out.

    Attributes:
        inputs: How many were evaluated.
        deviation: The largest difference of an output from the plain network's, which is computed in double precision.
        largest: The largest output of the plain network.
        agreement: The share of inputs that get the same class.
        accuracy: Of the encrypted outputs; None without labels.
        plain_accuracy: Of the plain network on the same inputs.
        keygen_seconds: For the keys.
        encrypt_seconds: For each input.
        evaluate_seconds: For each input: the time for all of them, with all processes, divided by their number.
        decrypt_seconds: For each input.
    """

    inputs: int
    deviation: float
    largest: float
    agreement: float
    accuracy: float | None
    plain_accuracy: float | None
    keygen_seconds: float
    encrypt_seconds: float
    evaluate_seconds: float
    decrypt_seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("inputs", f"{self.inputs}"),
            ("deviation", f"{self.deviation:.2e} at most, of outputs up to {self.largest:.3g}"),
            ("same class", f"{self.agreement:.2%}"),
        ]
        if self.accuracy is not None:
            rows.append(("accuracy", f"{self.accuracy:.2%} encrypted, {self.plain_accuracy:.2%} plain"))
        rows += [
            ("keys", f"{self.keygen_seconds:.2f} s"),
            (
                "client",
                f"{self.encrypt_seconds * 1e3:.3g} ms to encrypt, {self.decrypt_seconds * 1e3:.3g} ms to decrypt",
            ),
            ("server", f"{self.evaluate_seconds:.3g} s for each input"),
        ]
        return "\n".join(f"{name:14} {text}" for name, text in rows)


def run_trial(
    plan: Plan,
    circuit: Circuit,
    network: nn.Module,
    inputs: Tensor,
    folder: PathLike,
    *,
    labels: Tensor | None = None,
    workers: int | None = None,
) -> Trial:
    """Encrypt inputs, evaluate and decrypt them with nothing but the files in ``folder/client`` and ``folder/server``.

    Args:
        plan: For the network.
        circuit: The network, compiled.
        network: The same network, to compare with.
        inputs: A batch.
        folder: Where the two folders are made; there must be no keys in them yet.
        labels: The right classes.
        workers: Processes of the server; as many as there are cores if left out.
    """
    client_folder, server_folder = Path(folder) / "client", Path(folder) / "server"
    require_no_secret_key(client_folder)  # before a new plan makes it useless
    write_plan(plan, circuit, client=client_folder, server=server_folder)
    asked, answered = server_folder / "inputs", client_folder / "outputs"
    keygen, _ = _timed(lambda: make_client_keys(client_folder, server_folder / EVALUATION_KEYS))
    client, server = Client(client_folder), Server(server_folder, workers=workers)
    encrypt, _ = _timed(lambda: client.encrypt(inputs.double().numpy(), asked))
    evaluate, _ = _timed(lambda: server.evaluate(asked, answered))
    decrypt, outputs = _timed(lambda: client.decrypt(answered))
    expected = _plain(network, inputs)
    count, predicted = len(inputs), outputs.argmax(1)
    truth = None if labels is None else labels.numpy()
    return Trial(
        inputs=count,
        deviation=float(np.abs(outputs - expected).max()),
        largest=float(np.abs(expected).max()),
        agreement=float((predicted == expected.argmax(1)).mean()),
        accuracy=None if truth is None else float((predicted == truth).mean()),
        plain_accuracy=None if truth is None else float((expected.argmax(1) == truth).mean()),
        keygen_seconds=keygen,
        encrypt_seconds=encrypt / count,
        evaluate_seconds=evaluate / count,
        decrypt_seconds=decrypt / count,
    )


def _plain(network: nn.Module, inputs: Tensor) -> np.ndarray:
    """The network in double precision, left as it was."""
    state = {
        name: value.double() if value.is_floating_point() else value
        for name, value in (*network.named_parameters(), *network.named_buffers())
    }
    with torch.no_grad(), evaluating(network):
        return torch.func.functional_call(network, state, inputs.double()).flatten(1).numpy()


def _timed(call: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
