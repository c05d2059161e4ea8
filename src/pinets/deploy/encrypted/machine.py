"""What this machine does: the speed of SEAL, and work in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np

from pinets.deploy.encrypted import errors
from pinets.deploy.encrypted.parameters import Parameters

__all__ = ["fork_map", "measure_costs", "worker_count"]

_ROUNDS = 3


def measure_costs(parameters: Parameters) -> Callable[[str, int], float] | None:
    """Seconds of an operation at a level, from a short measurement at the highest; None without SEAL."""
    from pinets.deploy.encrypted.seal import SealDecryptor, SealEvaluator, SealScheme, make_keys

    try:
        scheme = SealScheme(parameters)
    except ModuleNotFoundError:
        return None
    secret, relinearisation, rotation = make_keys(scheme, [1])
    evaluator = SealEvaluator(scheme, relinearisation, rotation)
    numbers = np.full(parameters.slots, 0.5)
    entry = evaluator.load(SealDecryptor(scheme, secret).encrypt(numbers, parameters.scale))
    top = parameters.levels
    plaintext = evaluator.encode(numbers, top, parameters.scale)
    product = evaluator.multiply_plain(entry, plaintext)
    seconds = {
        "rotate": _seconds(lambda: evaluator.rotate(entry, 1)),
        "multiply": _seconds(lambda: evaluator.multiply(entry, entry)),
        "multiply_plain": _seconds(lambda: evaluator.add(evaluator.multiply_plain(entry, plaintext), product)),
        "rescale": _seconds(lambda: evaluator.rescale(evaluator.multiply_plain(entry, plaintext))),
    }

    def cost(operation: str, level: int) -> float:
        share = (level + 1) / (top + 1)
        if operation in ("rotate", "multiply"):  # switching keys takes a transform for each pair of primes
            share *= (level + 2) / (top + 2)
        return seconds[operation] * share

    return cost


def _seconds(call: Callable[[], object]) -> float:
    """The shortest of a few rounds."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def worker_count(wanted: int | None) -> int:
    """How many processes to use: as many as there are cores if left out, and one where processes cannot fork."""
    if wanted is not None and wanted < 1:
        raise ValueError(f"workers must be at least 1, got {wanted}")
    if "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return 1
    return wanted or len(os.sched_getaffinity(0))


_Running = tuple[BaseProcess, Connection]


def fork_map(compute: Callable[[int], bytes], numbers: Sequence[int], workers: int) -> list[bytes]:
    r"""Call a function for each number, in several processes: SEAL's bindings keep other threads waiting.

    The processes are copies of this one, so nothing has to be handed to them; what they compute comes back as bytes.

    >>> fork_map(lambda number: bytes([number]), [3, 1, 2], workers=2)
    [b'\x03', b'\x01', b'\x02']
    """
    workers = min(workers, len(numbers))
    if workers <= 1:
        return [compute(number) for number in numbers]
    running: list[_Running] = []
    try:
        for first in range(workers):
            running.append(_start(compute, numbers[first::workers], [pipe for _, pipe in running]))
        # in turn: a result that nobody takes keeps its process waiting
        return [_receive(*running[at % workers]) for at in range(len(numbers))]
    except BaseException:
        for process, _ in running:
            process.terminate()
        raise
    finally:
        for process, pipe in running:
            pipe.close()
            process.join()


def _start(compute: Callable[[int], bytes], numbers: Sequence[int], others: Sequence[Connection]) -> _Running:
    """A process, and the end of the pipe that its results come out of."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(compute, numbers, theirs, [*others, ours]))
    process.start()
    theirs.close()
    return process, ours


def _work(compute: Callable[[int], bytes], numbers: Sequence[int], pipe: Connection, ours: list[Connection]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches the first process too, which then ends this one
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that temporary files are deleted
    for inherited in ours:  # as long as anybody has them open, writing to a pipe waits for a reader
        inherited.close()
    with suppress(BrokenPipeError):  # the first process is gone
        for number in numbers:
            failure, result = b"", b""
            try:
                result = compute(number)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}".encode(errors="surrogateescape")
            pipe.send_bytes(failure)
            if failure:
                return
            pipe.send_bytes(result)


def _receive(process: BaseProcess, pipe: Connection) -> bytes:
    try:
        failure = pipe.recv_bytes()
        if not failure:
            return pipe.recv_bytes()
    except (EOFError, OSError):
        raise RuntimeError(f"a process ended before it was done: {_cause_of_death(process)}") from None
    raise _as_error(failure.decode(errors="surrogateescape"))


def _as_error(failure: str) -> Exception:
    """An error of this package as itself, any other in its words."""
    name, _, text = failure.partition(": ")
    return getattr(errors, name)(text) if name in errors.__all__ else RuntimeError(failure)


def _cause_of_death(process: BaseProcess) -> str:
    process.join()
    code = process.exitcode or 0
    if code == -signal.SIGKILL:
        return "it was killed, as the system does where memory runs out; fewer workers take less"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
