"""Work in several processes, some of which fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time

import pytest

from pinets.encrypted import FileError
from pinets.encrypted.workers import fork_map, worker_count

pytestmark = pytest.mark.skipif(worker_count(2) == 1, reason="processes cannot fork here")

LARGE = bytes(1 << 20)  # more than a pipe holds


@pytest.fixture(autouse=True)
def in_time():
    """A deadlock fails the test, and leaves no processes behind."""

    def give_up(*_):
        raise TimeoutError("the processes wait for each other")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    for child in multiprocessing.active_children():
        child.kill()


def failing(error):
    """Raises for the second of all numbers, while others have large results."""

    def compute(number):
        if number == 1:
            raise error
        return LARGE

    return compute


def test_results_come_in_order():
    assert fork_map(lambda number: bytes([number]) * 3, [5, 3, 4, 1], workers=3) == [
        b"\5" * 3,
        b"\3" * 3,
        b"\4" * 3,
        b"\1" * 3,
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_error_in_a_process_is_the_callers(workers, capfd):
    with pytest.raises(FileError, match="ciphertext 1 of asked: broken"):
        fork_map(failing(FileError("ciphertext 1 of asked: broken")), range(6), workers)
    assert capfd.readouterr().err == ""  # no process said anything by itself


def test_an_error_of_another_kind_comes_in_its_words():
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by zero"):
        fork_map(failing(ZeroDivisionError("by zero")), range(6), workers=2)


@pytest.mark.parametrize(
    "end, message",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "it was killed, as the system does where memory runs out"),
        (lambda: os.kill(os.getpid(), signal.SIGUSR1), f"signal {int(signal.SIGUSR1)}"),
        (lambda: os._exit(3), "exit code 3"),
    ],
    ids=["killed", "by another signal", "left"],
)
def test_a_process_that_ends_without_a_word(end, message, capfd):
    def compute(number):
        if number == 1:
            end()
        return LARGE

    with pytest.raises(RuntimeError, match=f"ended before it was done: {message}"):
        fork_map(compute, range(6), workers=2)
    assert "Traceback" not in capfd.readouterr().err


def test_processes_that_are_ended_delete_their_files(tmp_path):
    def compute(number):
        if number == 1:
            with tempfile.TemporaryDirectory(dir=tmp_path):
                time.sleep(60)
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        raise FileError("broken")

    with pytest.raises(FileError, match="broken"):
        fork_map(compute, range(2), workers=2)
    assert list(tmp_path.iterdir()) == []
