"""The server: evaluates the network on what it cannot read.

Its folder holds ``plan.json``, ``network.circuit`` and the client's ``evaluation.keys``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pinets._files import write_bytes
from pinets.deploy.encrypted.circuit import Circuit
from pinets.deploy.encrypted.client import EVALUATION_KEYS, PLAN, PathLike, read_plan
from pinets.deploy.encrypted.errors import FileError
from pinets.deploy.encrypted.files import Container, read_circuit, read_container, write_circuit, write_container
from pinets.deploy.encrypted.latency import LatencyProgram
from pinets.deploy.encrypted.machine import available_memory, fork_map, worker_count
from pinets.deploy.encrypted.plan import Plan, in_units
from pinets.deploy.encrypted.seal import SealEvaluator, SealScheme, save
from pinets.deploy.encrypted.throughput import ThroughputProgram

__all__ = ["CIRCUIT", "Server", "write_plan"]

CIRCUIT = "network.circuit"


def write_plan(plan: Plan, circuit: Circuit, *, client: PathLike, server: PathLike) -> None:
    """Write the plan into both folders, and the network into the server's."""
    import json

    content = (json.dumps(plan.to_json(), indent=1) + "\n").encode()
    for folder in (client, server):
        write_bytes(Path(folder) / PLAN, content)
    write_circuit(Path(server) / CIRCUIT, circuit, plan.identity)


class Server:
    """Evaluates the network in its folder with the client's evaluation keys.

    Args:
        folder: With plan, network and evaluation keys.
        workers: Processes to use; as many as there are cores if left out.
    """

    def __init__(self, folder: PathLike, *, workers: int | None = None) -> None:
        folder = Path(folder)
        self.plan = plan = read_plan(folder)
        self._workers = worker_count(workers)
        memory = available_memory()
        if plan.needed_bytes > memory:
            raise MemoryError(
                f"keys and ciphertexts take {in_units(plan.needed_bytes)} of memory, and {in_units(memory)} is there"
            )
        circuit = read_circuit(folder / CIRCUIT, plan.identity)
        path = folder / EVALUATION_KEYS
        keys = read_container(path, "evaluation keys").require(plan=plan.identity, path=path)
        self._keys = keys.keys
        self._evaluator = SealEvaluator(
            SealScheme(plan.parameters), keys.parts["relinearisation"], keys.parts["rotation"]
        )
        self._program: LatencyProgram | ThroughputProgram
        if plan.layout is None:
            self._program = ThroughputProgram(circuit)
        else:
            keep = plan.key_bytes + plan.ciphertext_bytes + plan.weight_bytes < memory // 2
            self._program = LatencyProgram(circuit, plan.layout, plan.parameters.slots, keep=keep)

    def evaluate(self, source: PathLike, target: PathLike) -> None:
        """Evaluate the network on a file of encrypted inputs, and write the encrypted outputs."""
        inputs = read_container(source, "inputs").require(plan=self.plan.identity, keys=self._keys, path=source)
        entries = list(inputs.parts.values())
        size = 1
        for axis in self.plan.input_shape:
            size *= axis
        if self.plan.layout is None and len(entries) % size:
            raise FileError(f"{source} holds {len(entries)} ciphertexts, which is no multiple of the {size} features")
        results = self.evaluate_ciphertexts(entries)
        parts = {str(number): part for number, part in enumerate(results)}
        write_container(target, Container("outputs", self.plan.identity, self._keys, parts, inputs.facts))

    def evaluate_ciphertexts(self, entries: Sequence[bytes]) -> list[bytes]:
        """Evaluate the network on serialised ciphertexts."""
        program = self._program
        if isinstance(program, LatencyProgram):
            if self._workers > 1 and len(entries) > 1:
                results = [self._one(program, entries[0])]  # which encodes the weights, for all processes
                rest = fork_map(lambda at: self._one(program, entries[at]), range(1, len(entries)), self._workers)
                return results + rest
            return [self._one(program, entry) for entry in entries]
        size, outputs = program.circuit.size, []
        for start in range(0, len(entries), size):
            loaded = [self._load(entry) for entry in entries[start : start + size]]
            outputs += [save(out) for out in program.run(self._evaluator, loaded, self.plan.output_scale, self._spread)]
        return outputs

    def _one(self, program: LatencyProgram, entry: bytes) -> bytes:
        return save(program.run(self._evaluator, self._load(entry), self.plan.output_scale))

    def _load(self, entry: bytes) -> Any:
        """A client's ciphertext; one that was not freshly encrypted for this plan would fail half-way."""
        ciphertext, parameters = self._evaluator.load(entry), self.plan.parameters
        level, scale = self._evaluator.level(ciphertext), self._evaluator.scale(ciphertext)
        if (level, scale) != (parameters.levels, parameters.scale):
            raise FileError(
                f"a ciphertext has level {level} and scale {scale:g}, inputs of this plan have {parameters.levels} and "
                f"{parameters.scale:g}"
            )
        return ciphertext

    def _spread(self, compute: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        if self._workers == 1:
            return [compute(number) for number in numbers]
        computed = fork_map(lambda number: save(compute(number)), numbers, self._workers)
        return [self._evaluator.load(one) for one in computed]
