"""Encrypted inference over HTTP under load: many clients, each with keys of its own, one request after the other.

FOLDER is a server's folder: `pinets encrypt plan RUN --out mnist` writes mnist/server. Starts the service, lets
the clients ask for the given time, and compares every answer with the plain network. With --kill-every, a worker is
killed now and then; the requests that it had are answered with an error, and sent again. Clients and service share the
machine, so throughput is that of both.

Example:
  python -m benchmarks service mnist/server --clients 32 --seconds 600
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import torch

from benchmarks.rows import Goal, Row
from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError
from pinets.encrypted import read_circuit
from pinets.encrypted.service import RemoteClient, ServiceError

__all__ = ["add_arguments", "rows"]

_SAMPLE_SECONDS = 5.0
_START_SECONDS = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    parser.add_argument("folder", metavar="FOLDER", help="a server's folder")
    parser.add_argument("--clients", type=positive, default=32, help="at once (default: 32)")
    parser.add_argument("--seconds", type=float, default=600.0, help="time to ask for (default: 600)")
    parser.add_argument("--workers", type=positive, default=2, help="of the service (default: 2)")
    parser.add_argument("--keys-in-memory", type=positive, default=16, help="of a worker (default: 16)")
    parser.add_argument("--kill-every", type=float, help="kill a worker after so many seconds, again and again")


@dataclass
class Outcome:
    """What the clients saw."""

    latencies: list[float] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    answered_with_errors: int = 0
    lost: list[str] = field(default_factory=list)  # without an answer


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """Measure."""
    if not (Path(args.folder) / "network.circuit").is_file():
        raise UsageError(f"{args.folder} is not a server's folder: pinets encrypt plan RUN --out DIR makes DIR/server")
    with tempfile.TemporaryDirectory() as temporary, _service(args, Path(temporary)) as (process, url):
        with ThreadPoolExecutor(2) as pool:  # keys take memory while they are made
            clients = list(pool.map(lambda name: _client(url, Path(temporary) / f"client-{name}"), range(args.clients)))
        print(f"{args.clients} clients have sent their keys", file=sys.stderr, flush=True)
        before = _cpu_seconds(process)
        outcome, memory, killed = _load(clients, process, args)
        spent = _cpu_seconds(process) - before
    seconds = np.array(outcome.latencies or [np.nan])
    plan, _ = read_circuit(args.folder)
    yield Row(
        f"{args.clients} clients, {args.workers} workers",
        {
            "answers": len(outcome.latencies),
            "a second": len(outcome.latencies) / args.seconds,
            "CPU s each": spent
            / max(len(outcome.latencies), 1),  # of the service; workers that were killed do not count
            "p50 s": float(np.quantile(seconds, 0.5)),
            "p99 s": float(np.quantile(seconds, 0.99)),
            "lost": len(outcome.lost),
            "errors": outcome.answered_with_errors,
            "killed": killed,
            "deviation": max(outcome.deviations, default=np.nan),
            "MB at 20 %": memory[len(memory) // 5],
            "MB at the end": memory[-1],
        },
        (Goal("lost", at_most=0), Goal("deviation", at_most=plan.deviation)),
        {"lost": outcome.lost, "megabytes": memory},
    )


def _cpu_seconds(process: psutil.Process) -> float:
    times = [one.cpu_times() for one in [process, *process.children()]]
    return sum(one.user + one.system for one in times)


@contextmanager
def _service(args: argparse.Namespace, folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The service as a process of its own, and its address."""
    command = [sys.executable, "-m", "pinets", "encrypt", "serve", args.folder, "--port", "0", "--quota", "100"]
    command += ["--workers", str(args.workers), "--keys-in-memory", str(args.keys_in_memory)]
    command += ["--store", str(folder / "store"), "--waiting", str(args.clients)]
    log = folder / "log"
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            end = time.monotonic() + _START_SECONDS
            while not (found := re.search(r"open (http://\S+)/", log.read_text())):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the service did not start: {log.read_text()[-500:]}")
                time.sleep(0.2)
            yield psutil.Process(process.pid), found[1]
        finally:
            process.send_signal(signal.SIGTERM)


def _client(url: str, folder: Path) -> RemoteClient:
    """A client that has sent its keys."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            client = RemoteClient(url, cache=folder, progress=lambda *_: None)
            client._key_id(renew=False)
            return client
        except ServiceError as error:  # it does not listen yet
            if time.monotonic() > end or error.status is not None:
                raise
            time.sleep(0.5)


def _load(
    clients: list[RemoteClient], process: psutil.Process, args: argparse.Namespace
) -> tuple[Outcome, list[float], int]:
    """Let all clients ask; gives what they saw, the service's memory in the course of time, and the workers killed."""
    plan, circuit = read_circuit(args.folder)
    outcome, end = Outcome(), time.monotonic() + args.seconds

    def ask(number: int) -> None:
        generator = np.random.default_rng(number)
        while time.monotonic() < end:
            inputs = generator.uniform(plan.low, plan.high, (1, *plan.input_shape)) / 8  # as small as most images
            start = time.monotonic()
            try:
                outputs = clients[number].predict(np.clip(inputs, plan.low, plan.high))
            except ServiceError as error:
                if error.status == 500:
                    outcome.answered_with_errors += 1
                else:
                    outcome.lost.append(str(error))
                continue
            outcome.latencies.append(time.monotonic() - start)
            expected = circuit(torch.from_numpy(inputs.reshape(1, -1))).numpy()
            outcome.deviations.append(float(np.abs(outputs - expected).max()))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    memory, killed, next_kill = [], 0, time.monotonic() + (args.kill_every or np.inf)
    while time.monotonic() < end:
        time.sleep(min(_SAMPLE_SECONDS, max(0.0, end - time.monotonic())))
        workers = process.children()
        with suppress(psutil.NoSuchProcess):  # a worker that was killed
            memory.append(sum(one.memory_info().rss for one in [process, *workers]) / 1e6)
        if time.monotonic() > next_kill and workers:
            os.kill(workers[killed % len(workers)].pid, signal.SIGKILL)
            killed += 1
            next_kill += args.kill_every
    for thread in threads:
        thread.join()
    return outcome, memory, killed
