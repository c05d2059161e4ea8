"""Work in several processes: SEAL's bindings hold the interpreter's lock, so threads would wait for each other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from pinets.encrypted.errors import EncryptedError

__all__ = ["fork_map", "worker_count"]


def worker_count(wanted: int | None) -> int:
    """The number of processes to use: by default one for each core; one where processes cannot fork."""
    if wanted is not None and wanted < 1:
        raise ValueError(f"workers must be at least 1, got {wanted}")
    if "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return 1
    return wanted or len(os.sched_getaffinity(0))


_Running = tuple[BaseProcess, Connection]


def fork_map(compute: Callable[[int], bytes], numbers: Sequence[int], workers: int) -> list[bytes]:
    r"""Call a function for each number in several processes, and return the results in order.

    The processes are forks, so the function may use anything in memory; results come back as bytes.

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
        # in turn: a process waits until its result is taken
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
    """Start a process; its results arrive in the pipe."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(compute, numbers, theirs, [*others, ours]))
    process.start()
    theirs.close()
    return process, ours


def _work(compute: Callable[[int], bytes], numbers: Sequence[int], pipe: Connection, ours: list[Connection]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an orderly exit deletes temporary files
    for inherited in ours:  # while a reader is open somewhere, writing to its pipe would block instead of fail
        inherited.close()
    with suppress(BrokenPipeError):  # the parent is gone
        for number in numbers:
            answer = _answer(compute, number)
            pipe.send(answer)
            if isinstance(answer, Exception):
                return


def _answer(compute: Callable[[int], bytes], number: int) -> bytes | Exception:
    """The result, or the error: ours as it is, another in words, since not all of them can be sent."""
    try:
        return compute(number)
    except EncryptedError as error:
        return error
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _receive(process: BaseProcess, pipe: Connection) -> bytes:
    try:
        answer = pipe.recv()
    except (EOFError, OSError):
        raise RuntimeError(f"a process ended before it was done: {_cause_of_death(process)}") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _cause_of_death(process: BaseProcess) -> str:
    process.join()
    code = process.exitcode or 0
    if code == -signal.SIGKILL:
        return "it was killed, as the system does where memory runs out; fewer workers take less"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
