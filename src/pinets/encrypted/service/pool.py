"""Worker processes: a request goes to a free one, if possible to one that has the client's keys in memory."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pinets.encrypted.errors import FileError, KeyMismatchError
from pinets.encrypted.service.worker import ANSWER, DONE, GONE, MISMATCH, REFUSED, REQUEST

__all__ = ["Pool", "WorkerError", "WorkerTimeoutError"]

log = logging.getLogger("pinets.service")

_START_SECONDS = 300.0  # importing torch on a busy machine
_PAUSE_SECONDS = 2.0  # pause after a worker did not start
_OVERTAKEN = 1  # how often the longest waiting request may be overtaken by one whose keys are loaded


class WorkerError(RuntimeError):
    """A worker died or failed; the request may be sent again."""


class WorkerTimeoutError(WorkerError):
    """A request took too long, and its worker was ended."""


@dataclass(eq=False)
class _Worker:
    process: asyncio.subprocess.Process
    keys: OrderedDict[str, None] = field(default_factory=OrderedDict)  # that it has in memory

    async def ask(self, path: str, inputs: bytes) -> tuple[int, bytes]:
        assert self.process.stdin is not None
        name = os.fsencode(path)
        self.process.stdin.writelines([REQUEST.pack(len(name), len(inputs)), name, inputs])
        await self.process.stdin.drain()
        return await self.read()

    async def read(self) -> tuple[int, bytes]:
        assert self.process.stdout is not None
        status, size = ANSWER.unpack(await self.process.stdout.readexactly(ANSWER.size))
        return status, await self.process.stdout.readexactly(size)


@dataclass(eq=False)
class _Waiting:
    path: str
    turn: asyncio.Future[_Worker]
    overtaken: int = 0


class Pool:
    """Worker processes for one network.

    Args:
        folder: The server's folder, with plan and circuit.
        workers: The number of processes.
        keep: The number of clients whose keys each process keeps in memory.
        seconds: The longest time for one request; after it the process is ended.
        on_death: Called when a process has ended by itself or was ended.
    """

    def __init__(
        self, folder: Path, *, workers: int, keep: int, seconds: float, on_death: Callable[[], None] = lambda: None
    ) -> None:
        self.folder, self.size, self.keep, self.seconds = folder, workers, keep, seconds
        self._on_death = on_death
        self._free: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the processes; returns when all of them are ready, and fails if one does not start."""
        for worker in await asyncio.gather(*(self._start_worker() for _ in range(self.size))):
            if worker is None:
                await self.close()
                raise RuntimeError("a worker did not start; what it said stands above")

    async def close(self) -> None:
        """End the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in list(self._all):
            await self._end(worker)

    @property
    def alive(self) -> int:
        """The number of processes that are ready or at work."""
        return len(self._all)

    @property
    def process_ids(self) -> list[int]:
        return [worker.process.pid for worker in self._all]

    async def run(self, path: Path, inputs: bytes = b"") -> bytes:
        """Evaluate encrypted inputs with the keys in a file; without inputs, check the keys and give their identity."""
        worker = await self._take(str(path))
        # A task of its own: if the caller goes away, the process still finishes what it has begun, and stays usable.
        result: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._spawn(self._serve(worker, str(path), inputs, result))
        status, content = await result
        if status == DONE:
            return content
        text = content.decode(errors="replace")
        if status == GONE:
            raise FileNotFoundError(text)
        raise {MISMATCH: KeyMismatchError, REFUSED: FileError}.get(status, WorkerError)(text)

    # Turns

    async def _take(self, path: str) -> _Worker:
        if self._free:
            worker = next((one for one in self._free if path in one.keys), self._free[0])
            self._free.remove(worker)
            return worker
        waiting = _Waiting(path, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.turn.done() and not waiting.turn.cancelled():
                self._give(waiting.turn.result())
            raise

    def _give(self, worker: _Worker) -> None:
        """Give a free worker to a request that waits."""
        self._waiting = [one for one in self._waiting if not one.turn.done()]
        if not self._waiting:
            self._free.append(worker)
            return
        chosen = self._waiting[0]
        if chosen.overtaken < _OVERTAKEN:
            chosen = next((one for one in self._waiting if one.path in worker.keys), chosen)
        if chosen is not self._waiting[0]:
            self._waiting[0].overtaken += 1
        self._waiting.remove(chosen)
        chosen.turn.set_result(worker)

    # Processes

    async def _serve(
        self, worker: _Worker, path: str, inputs: bytes, result: asyncio.Future[tuple[int, bytes]]
    ) -> None:
        error: WorkerError
        try:
            answer = await asyncio.wait_for(worker.ask(path, inputs), self.seconds)
        except TimeoutError:
            error = WorkerTimeoutError(f"the request took longer than {self.seconds:g} seconds")
        except (asyncio.IncompleteReadError, ConnectionError):
            error = WorkerError("the process that evaluated the request ended; send it again")
        else:
            worker.keys[path] = None
            worker.keys.move_to_end(path)
            while len(worker.keys) > self.keep:
                worker.keys.popitem(last=False)
            self._give(worker)
            if not result.done():
                result.set_result(answer)
            return
        log.warning("worker %d: %s", worker.process.pid, error)
        if not result.done():
            result.set_exception(error)
        await self._end(worker)
        self._on_death()
        await self._add_worker()

    async def _add_worker(self) -> None:
        """Start a process, again and again until one is ready. Without any, those who wait are told."""
        while await self._start_worker() is None:
            log.error("a worker did not start; trying again in %g seconds", _PAUSE_SECONDS)
            if not self._all:
                for waiting in self._waiting:
                    if not waiting.turn.done():
                        waiting.turn.set_exception(WorkerError("no worker can be started at the moment"))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _start_worker(self) -> _Worker | None:
        """Start a process and wait until it is ready; None if it ends instead."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pinets.encrypted.service.worker", str(self.folder), str(self.keep)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        worker = _Worker(process)
        try:
            await asyncio.wait_for(worker.read(), _START_SECONDS)
        except (TimeoutError, asyncio.IncompleteReadError):
            await self._end(worker)
            return None
        except asyncio.CancelledError:
            await self._end(worker)
            raise
        self._all.add(worker)
        self._give(worker)
        self._spawn(self._replace_if_idle(worker))
        return worker

    async def _replace_if_idle(self, worker: _Worker) -> None:
        """Replace a process that ends while it waits; one that ends at work is replaced when its request fails."""
        await worker.process.wait()
        if worker in self._free:
            self._free.remove(worker)
            self._all.discard(worker)
            log.warning("worker %d: ended while it was idle", worker.process.pid)
            self._on_death()
            await self._add_worker()

    async def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        with suppress(ProcessLookupError):
            worker.process.kill()
        await worker.process.wait()

    def _spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
