"""The server: evaluates the network on what it cannot read.

Its folder holds ``plan.json``, ``network.circuit`` and the client's ``evaluation.keys``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pinets._files import PathLike, write_bytes
from pinets.deploy.encrypted.circuit import Circuit
from pinets.deploy.encrypted.client import EVALUATION_KEYS, PLAN, SECRET_KEY, read_plan
from pinets.deploy.encrypted.errors import FileError
from pinets.deploy.encrypted.files import (
    Container,
    naming,
    read_circuit,
    read_container,
    write_circuit,
    write_container,
)
from pinets.deploy.encrypted.latency import LatencyProgram
from pinets.deploy.encrypted.machine import fork_map, worker_count
from pinets.deploy.encrypted.memory import available_memory
from pinets.deploy.encrypted.plan import Plan, in_units
from pinets.deploy.encrypted.seal import SealEvaluator, SealScheme, save
from pinets.deploy.encrypted.throughput import ThroughputProgram

__all__ = ["CIRCUIT", "Server", "write_plan"]

CIRCUIT = "network.circuit"


def write_plan(plan: Plan, circuit: Circuit, *, client: PathLike, server: PathLike) -> None:
    """Write the plan into both folders, and the network into the server's; not where there are keys of another plan."""
    import json

    content = (json.dumps(plan.to_json(), indent=1) + "\n").encode()
    for folder in (client, server):
        _require_no_keys_of_another_plan(Path(folder), plan)
    for folder in (client, server):
        write_bytes(Path(folder) / PLAN, content)
    write_circuit(Path(server) / CIRCUIT, circuit, plan.identity)


def _require_no_keys_of_another_plan(folder: Path, plan: Plan) -> None:
    keys = next((folder / name for name in (SECRET_KEY, EVALUATION_KEYS) if (folder / name).exists()), None)
    if keys and (folder / PLAN).exists() and read_plan(folder).identity != plan.identity:
        raise FileExistsError(
            f"{keys} belongs to the plan in {folder / PLAN}, which this one differs from: move both away first, or "
            "plan into another folder"
        )


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
        names = ("relinearisation", "rotation")
        keys = read_container(path, "evaluation keys").require(plan=plan.identity, parts=names, path=path)
        self._keys = keys.keys
        with naming(path):
            self._evaluator = SealEvaluator(SealScheme(plan.parameters), *(keys.parts[name] for name in names))
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
        results = self.evaluate_ciphertexts(entries, source)
        parts = {str(number): part for number, part in enumerate(results)}
        write_container(target, Container("outputs", self.plan.identity, self._keys, parts, inputs.facts))

    def evaluate_ciphertexts(self, entries: Sequence[bytes], source: PathLike = "the inputs") -> list[bytes]:
        """Evaluate the network on serialised ciphertexts; errors say which one of the source it was."""

        def load(number: int) -> Any:
            with naming(f"ciphertext {number} of {source}"):
                return self._load(entries[number])

        program, numbers = self._program, range(len(entries))
        if isinstance(program, LatencyProgram):
            one = partial(self._one, program, load)
            # the first one here: it encodes the weights, for all processes
            return [one(number) for number in numbers[:1]] + fork_map(one, numbers[1:], self._workers)
        size, outputs = program.circuit.size, []
        for start in numbers[::size]:
            loaded = [load(number) for number in numbers[start : start + size]]
            outputs += [save(out) for out in program.run(self._evaluator, loaded, self.plan.output_scale, self._spread)]
        return outputs

    def _one(self, program: LatencyProgram, load: Callable[[int], Any], number: int) -> bytes:
        return save(program.run(self._evaluator, load(number), self.plan.output_scale))

    def _load(self, entry: bytes) -> Any:
        """A client's ciphertext; one that was not freshly encrypted for this plan would fail half-way."""
        ciphertext, parameters = self._evaluator.load(entry), self.plan.parameters
        level, scale = self._evaluator.level(ciphertext), self._evaluator.scale(ciphertext)
        if (level, scale) != (parameters.levels, parameters.scale):
            raise FileError(
                f"it has level {level} and scale {scale:g}, inputs of this plan have {parameters.levels} and "
                f"{parameters.scale:g}"
            )
        return ciphertext

    def _spread(self, compute: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        if self._workers == 1:
            return [compute(number) for number in numbers]
        computed = fork_map(lambda number: save(compute(number)), numbers, self._workers)
        return [self._evaluator.load(one) for one in computed]
