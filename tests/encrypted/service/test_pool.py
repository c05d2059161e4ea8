"""Worker processes that cannot start, and turns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pinets.encrypted.service.pool import Pool, WorkerError, _Waiting, _Worker


def test_a_pool_whose_workers_cannot_start_says_so(tmp_path, capfd):
    pool = Pool(tmp_path, workers=1, keep=1, seconds=10)
    with pytest.raises(RuntimeError, match="a worker did not start"):
        asyncio.run(pool.start())
    assert "there is no plan.json" in capfd.readouterr().err
    assert pool.alive == 0


def test_who_waits_is_told_when_no_worker_starts_again(tmp_path, monkeypatch):
    async def wait() -> None:
        pool = Pool(tmp_path, workers=1, keep=1, seconds=10)
        monkeypatch.setattr(pool, "_start_worker", lambda: asyncio.sleep(0))
        pool._spawn(pool._add_worker())
        try:
            await asyncio.wait_for(pool.run(Path("keys")), 10)
        finally:
            await pool.close()

    with pytest.raises(WorkerError, match="no worker can be started"):
        asyncio.run(wait())


def test_keys_in_memory_come_first_but_only_once(tmp_path):
    """A worker prefers requests whose keys it has; the one that waits longest is passed over once."""

    async def order() -> list[str]:
        pool, worker = Pool(tmp_path, workers=1, keep=2, seconds=10), _Worker(process=None)
        worker.keys["a"] = None
        futures = [asyncio.get_running_loop().create_future() for _ in range(4)]
        pool._waiting = [_Waiting(path, future) for path, future in zip("baaa", futures, strict=True)]
        pool._waiting[3].turn.cancel()  # went away
        served = []
        for _ in range(3):
            before = [(one.path, one.turn) for one in pool._waiting]
            pool._give(worker)
            served += [path for path, turn in before if turn.done() and not turn.cancelled()]
        pool._give(worker)
        assert pool._free == [worker]
        return served

    assert asyncio.run(order()) == ["a", "b", "a"]
