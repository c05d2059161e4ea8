"""A trial: keys, encryption, evaluation and decryption with real files, timed and compared with the plain network."""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pinets._files import PathLike
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.folders import (
    EVALUATION_KEYS,
    make_key_files,
    open_client,
    read_circuit,
    require_no_secret_key,
    write_plan,
)
from pinets.encrypted.plan import Plan, in_units
from pinets.encrypted.server import Server

__all__ = ["Trial", "run_trial"]


@dataclass(frozen=True)
class Trial:
    """The outcome of a trial.

    Attributes:
        inputs: The number of inputs.
        deviation: The largest difference of an output from the plain network's in double precision.
        largest: The largest output of the plain network.
        agreement: The share of inputs that get the same class from both; None for a single output.
        accuracy: The accuracy of the encrypted outputs; None without labels.
        plain_accuracy: The accuracy of the plain network on the same inputs.
        keygen_seconds: The time to make the keys.
        encrypt_seconds: The time to encrypt, for each input.
        evaluate_seconds: The wall-clock time to evaluate, for each input.
        evaluate_cpu_seconds: The CPU time of all processes of the server, for each input.
        decrypt_seconds: The time to decrypt, for each input.
        key_bytes: The size of the file of evaluation keys.
        request_bytes: The size of the encrypted inputs, all together.
        answer_bytes: The size of the encrypted outputs, all together.
        peak_bytes: The largest memory of a process, client and server together; None if the system does not tell.
    """

    inputs: int
    deviation: float
    largest: float
    agreement: float | None
    accuracy: float | None
    plain_accuracy: float | None
    keygen_seconds: float
    encrypt_seconds: float
    evaluate_seconds: float
    evaluate_cpu_seconds: float
    decrypt_seconds: float
    key_bytes: int
    request_bytes: int
    answer_bytes: int
    peak_bytes: int | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("inputs", f"{self.inputs}"),
            ("deviation", f"{self.deviation:.2e} at most, of outputs up to {self.largest:.3g}"),
        ]
        if self.agreement is not None:
            rows.append(("same class", f"{self.agreement:.2%}"))
        if self.accuracy is not None:
            rows.append(("accuracy", f"{self.accuracy:.2%} encrypted, {self.plain_accuracy:.2%} plain"))
        rows += [
            ("keys", f"{self.keygen_seconds:.2f} s"),
            (
                "client",
                f"{self.encrypt_seconds * 1e3:.3g} ms to encrypt, {self.decrypt_seconds * 1e3:.3g} ms to decrypt",
            ),
            ("server", f"{self.evaluate_seconds:.3g} s for each input, {self.evaluate_cpu_seconds:.3g} s of CPU time"),
            ("bytes", f"keys {in_units(self.key_bytes)}, request {in_units(self.request_bytes)}, "
                      f"answer {in_units(self.answer_bytes)}"),
        ]  # fmt: skip
        if self.peak_bytes is not None:
            rows.append(("peak memory", in_units(self.peak_bytes)))
        return "\n".join(f"{name:14} {text}" for name, text in rows)


def run_trial(
    plan: Plan,
    circuit: Circuit,
    network: nn.Module,
    inputs: Tensor,
    folder: PathLike,
    *,
    labels: Tensor | None = None,
    mirror: bool = False,
    workers: int | None = None,
    memory: int | None = None,
    done: Callable[[Mapping[str, float]], None] = lambda figures: None,
) -> Trial:
    """Encrypt, evaluate and decrypt inputs with the plan and keys in ``folder/client`` and ``folder/server``.

    Args:
        plan: The plan of the network.
        circuit: The compiled network.
        network: The network itself, for comparison.
        inputs: A batch of inputs.
        folder: The parent of the two folders, which must not hold keys yet.
        labels: The true classes.
        mirror: Whether each input, an image, is encrypted a second time as its mirror image. The client then averages
            the two outputs, which is compared with the same average of the plain network.
        workers: The number of processes of the server; by default one for each core.
        memory: The memory of the server in bytes; by default what is free now.
        done: Called after each input with the figures so far.
    """
    if mirror and inputs.ndim != 4:
        raise ValueError(f"only images of shape (channels, height, width) have a mirror image, got {inputs.shape[1:]}")
    count, views = len(inputs), 2 if mirror else 1
    if mirror:
        inputs = torch.stack([inputs, inputs.flip(-1)], dim=1).flatten(0, 1)
    client_folder, server_folder = Path(folder) / "client", Path(folder) / "server"
    require_no_secret_key(client_folder)  # first: a new plan would make it useless
    write_plan(plan, circuit, client=client_folder, server=server_folder)
    key_file = server_folder / EVALUATION_KEYS
    keygen, encrypt, evaluate, decrypt = (_Clock() for _ in range(4))
    with keygen.running():
        make_key_files(client_folder, key_file)
    client = open_client(client_folder)
    server = Server(*read_circuit(server_folder), workers=workers, memory=memory)
    keys = server.load_keys(key_file.read_bytes(), source=key_file)
    request_bytes = answer_bytes = 0
    expected = _mean_of(views, _plain(network, inputs))
    outputs = np.empty((0, *expected.shape[1:]))
    for some in inputs.split(views * plan.batch * server.together * server.workers):
        with encrypt.running():
            request = client.encrypt(some.double().numpy())
        with evaluate.running():
            answer = server.evaluate(request, keys)
        with decrypt.running():
            outputs = np.concatenate([outputs, _mean_of(views, client.decrypt(answer))])
        request_bytes, answer_bytes = request_bytes + len(request), answer_bytes + len(answer)
        known = expected[: len(outputs)]
        figures = {"deviation": float(np.abs(outputs - known).max())}
        if plan.outputs > 1:
            figures["same class"] = float((outputs.argmax(1) == known.argmax(1)).mean())
        for _ in range(len(some) // views):
            done(figures)
    truth = None if labels is None else labels.numpy()
    return Trial(
        inputs=count,
        deviation=figures["deviation"],
        largest=float(np.abs(expected).max()),
        agreement=figures.get("same class"),
        accuracy=None if truth is None else float((outputs.argmax(1) == truth).mean()),
        plain_accuracy=None if truth is None else float((expected.argmax(1) == truth).mean()),
        keygen_seconds=keygen.seconds,
        encrypt_seconds=encrypt.seconds / count,
        evaluate_seconds=evaluate.seconds / count,
        evaluate_cpu_seconds=evaluate.cpu_seconds / count,
        decrypt_seconds=decrypt.seconds / count,
        key_bytes=key_file.stat().st_size,
        request_bytes=request_bytes,
        answer_bytes=answer_bytes,
        peak_bytes=_peak_bytes(),
    )


def _plain(network: nn.Module, inputs: Tensor) -> np.ndarray:
    """The outputs of the network in double precision; the network is not changed."""
    with torch.no_grad():
        return copy.deepcopy(network).double().eval()(inputs.double()).flatten(1).numpy()


def _mean_of(views: int, outputs: np.ndarray) -> np.ndarray:
    """The mean over this many successive rows."""
    return outputs.reshape(-1, views, *outputs.shape[1:]).mean(1)


class _Clock:
    """Wall-clock and CPU time; the latter includes processes that have ended."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        start, cpu = time.perf_counter(), sum(os.times()[:4])
        yield
        self.seconds += time.perf_counter() - start
        self.cpu_seconds += sum(os.times()[:4]) - cpu


def _peak_bytes() -> int | None:
    """The largest memory that this process or one that it started had."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return largest if sys.platform == "darwin" else largest * 1024
