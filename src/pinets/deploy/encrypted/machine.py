"""What this machine has: free memory, the speed of SEAL, processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import numpy as np

from pinets.deploy.encrypted.parameters import Parameters

__all__ = ["available_memory", "fork_map", "measure_costs", "worker_count"]

_ROUNDS = 3


def available_memory() -> int:
    """Bytes that can still be used; of all memory where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 2**63 - 1


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


def fork_map(compute: Callable[[int], bytes], numbers: Sequence[int], workers: int) -> list[bytes]:
    r"""Call a function for each number, in several processes: SEAL's bindings keep other threads waiting.

    The processes are copies of this one, so nothing has to be handed to them; what they compute comes back as bytes.

    >>> fork_map(lambda number: bytes([number]), [3, 1, 2], workers=2)
    [b'\x03', b'\x01', b'\x02']
    """
    workers = min(workers, len(numbers))
    if workers <= 1:
        return [compute(number) for number in numbers]
    context = multiprocessing.get_context("fork")
    shares = [list(range(first, len(numbers), workers)) for first in range(workers)]
    running = []
    for share in shares:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(compute, [numbers[at] for at in share], theirs))
        process.start()
        theirs.close()
        running.append((process, ours))
    results: list[bytes] = [b""] * len(numbers)
    try:
        for at in range(len(numbers)):  # in turn: a result that nobody takes keeps its process waiting
            results[at] = running[at % workers][1].recv_bytes()
    except EOFError:
        raise RuntimeError("a process ended before it was done; see its error above") from None
    finally:
        for process, ours in running:
            ours.close()
            process.join()
    return results


def _work(compute: Callable[[int], bytes], numbers: Sequence[int], pipe: Connection) -> None:
    for number in numbers:
        pipe.send_bytes(compute(number))
    pipe.close()
