"""A process that evaluates requests, one at a time: SEAL's bindings hold the interpreter's lock.

It reads requests from its standard input and writes answers to its standard output. A request is the path of a file of
evaluation keys and encrypted inputs; without inputs, the keys are only checked. An answer is a status and a content.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

from pinets.encrypted.errors import EncryptedError, KeyMismatchError
from pinets.encrypted.folders import read_circuit
from pinets.encrypted.server import EvaluationKeys, Server

__all__ = ["ANSWER", "DONE", "FAILED", "GONE", "MISMATCH", "REFUSED", "REQUEST", "main"]

REQUEST = struct.Struct("<IQ")  # sizes of path and inputs
ANSWER = struct.Struct("<BQ")  # status, size of the content
DONE, REFUSED, MISMATCH, GONE, FAILED = range(5)


class Worker:
    """Evaluates requests, and keeps the keys of the ``keep`` clients that were last in memory."""

    def __init__(self, server: Server, keep: int) -> None:
        self._server, self._keep = server, keep
        self._keys: OrderedDict[str, EvaluationKeys] = OrderedDict()

    def answer(self, path: str, inputs: bytes) -> tuple[int, bytes]:
        """The status, and the encrypted outputs or the reason why there are none."""
        try:
            keys = self._load(path)
            return DONE, self._server.evaluate(inputs, keys) if inputs else keys.identity.encode()
        except FileNotFoundError:
            return GONE, b"these keys are no longer here: send them again"
        except KeyMismatchError as error:
            return MISMATCH, str(error).encode()
        except EncryptedError as error:
            return REFUSED, str(error).encode()
        except MemoryError:
            self._keys.clear()
            return FAILED, b"there is not enough memory"

    def _load(self, path: str) -> EvaluationKeys:
        if path in self._keys:
            self._keys.move_to_end(path)
            return self._keys[path]
        content = Path(path).read_bytes()
        while len(self._keys) >= self._keep:  # before the new ones are loaded
            self._keys.popitem(last=False)
        self._keys[path] = self._server.load_keys(content)
        return self._keys[path]


def main(folder: str, keep: int, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    worker = Worker(Server(*read_circuit(folder), workers=1), keep)
    _send(answers, DONE, b"")  # ready
    while head := requests.read(REQUEST.size):
        path_size, inputs_size = REQUEST.unpack(head)
        path = os.fsdecode(requests.read(path_size))
        _send(answers, *worker.answer(path, requests.read(inputs_size)))


def _send(answers: BinaryIO, status: int, content: bytes) -> None:
    answers.write(ANSWER.pack(status, len(content)) + content)
    answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service gets it too, and ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else that is printed may come between the answers
    main(sys.argv[1], int(sys.argv[2]), sys.stdin.buffer, answers)
