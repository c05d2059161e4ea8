"""The server: evaluates the network on encrypted inputs. It has no secret key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pinets.encrypted.backend import TogetherEvaluator
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.container import Container, naming
from pinets.encrypted.errors import FileError, KeyMismatchError
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.latency import LatencyProgram
from pinets.encrypted.machine import available_memory
from pinets.encrypted.packings import make_program
from pinets.encrypted.plan import Plan, in_units
from pinets.encrypted.seal import SealEvaluator, SealScheme, refusals
from pinets.encrypted.throughput import ThroughputProgram
from pinets.encrypted.workers import fork_map, worker_count

__all__ = ["EvaluationKeys", "Server", "key_file_bytes", "request_bytes", "split_inputs"]


@dataclass(frozen=True, eq=False)
class EvaluationKeys:
    """The evaluation keys of one client, ready for use.

    Attributes:
        identity: The identity of the keys.
        evaluator: SEAL's evaluator with these keys.
    """

    identity: str
    evaluator: SealEvaluator


class Server:
    """Evaluates one network for any number of clients.

    Args:
        plan: The plan of the network.
        circuit: The compiled network.
        workers: The number of processes; by default one for each core.
        memory: The memory in bytes that it may take; by default what is free now.

    Attributes:
        together: The number of inputs (throughput: sets of them) that a process evaluates in step. Where memory does
            not hold the encoded weights, they are then encoded less often.
    """

    def __init__(self, plan: Plan, circuit: Circuit, *, workers: int | None = None, memory: int | None = None) -> None:
        self.plan = plan
        self.workers = worker_count(workers)
        memory = available_memory() if memory is None else min(memory, available_memory())
        if plan.needed_bytes > memory:
            raise MemoryError(
                f"keys and ciphertexts take {in_units(plan.needed_bytes)} of memory, and {in_units(memory)} is free"
            )
        if (circuit.size, circuit.output.rows) != (math.prod(plan.input_shape), plan.outputs):
            raise KeyMismatchError(
                f"the circuit maps {circuit.size} numbers to {circuit.output.rows}, the plan "
                f"{math.prod(plan.input_shape)} to {plan.outputs}"
            )
        circuit = circuit.with_check(plan.check_weights)
        if circuit.depth > plan.parameters.levels:
            raise KeyMismatchError(f"the circuit takes {circuit.depth} levels, the plan has {plan.parameters.levels}")
        self._scheme = SealScheme(plan.parameters)
        keep = self._unencoded = plan.keeps_weights(memory)
        self.together = 1 if keep or plan.packing == "throughput" else plan.fitting(memory // self.workers)
        self._program = make_program(circuit, plan.arrangement, plan.parameters.slots, keep=keep)

    def load_keys(self, content: bytes, *, source: object = "the evaluation keys") -> EvaluationKeys:
        """Load the evaluation keys of a client; errors name the source."""
        names = ("relinearisation", "rotation")
        container = Container.from_bytes(content, "evaluation keys", source, most_parts=len(names))
        container.require(plan=self.plan.identity, parts=names, source=source)
        with naming(source):
            relinearisation, rotation = (container.parts[name] for name in names)
            evaluator = SealEvaluator(self._scheme, relinearisation, rotation, self.plan.rotations)
        return EvaluationKeys(container.keys, evaluator)

    def evaluate(self, inputs: bytes, keys: EvaluationKeys, *, source: object = "the inputs") -> bytes:
        """Evaluate the network on encrypted inputs; gives the encrypted outputs. Errors name the source."""
        plan = self.plan
        container = Container.from_bytes(inputs, "inputs", source)
        container.require(plan=plan.identity, keys=keys.identity, source=source)
        entries = list(container.parts.values())
        size = plan.parts
        if len(entries) % size:
            raise FileError(f"{source} holds {len(entries)} ciphertexts, not a multiple of the {size} of an input")

        def load(number: int) -> list[Any]:
            """The ciphertexts of an input, or of a set of them."""
            loaded = []
            for at in range(number * size, (number + 1) * size):
                with naming(f"ciphertext {at} of {source}"):
                    loaded.append(self._load(entries[at], keys.evaluator))
            return loaded

        numbers = range(len(entries) // size)
        results: list[bytes] = []
        if isinstance(self._program, ThroughputProgram):
            spread = partial(self._spread, keys.evaluator)
            for number in numbers:
                outputs = self._program.run(keys.evaluator, load(number), plan.output_scale, spread)
                results += [keys.evaluator.save(output) for output in outputs]
        else:
            starts = numbers[:: self.together]
            some = partial(self._some, self._program, keys.evaluator, load, numbers)
            # the very first in this process: it encodes the weights, which the others inherit
            alone = 1 if self._unencoded else 0
            computed = [some(start) for start in starts[:alone]] + fork_map(some, starts[alone:], self.workers)
            self._unencoded = False
            for start, joined in zip(starts, computed, strict=True):
                each = len(joined) // len(numbers[start : start + self.together])  # all answers have the same size
                results += [joined[at : at + each] for at in range(0, len(joined), each)]
        parts = {str(number): part for number, part in enumerate(results)}
        return Container("outputs", plan.identity, keys.identity, parts, container.facts).to_bytes()

    def _some(
        self,
        program: LatencyProgram | GridProgram,
        evaluator: SealEvaluator,
        load: Callable[[int], list[Any]],
        numbers: range,
        start: int,
    ) -> bytes:
        """The answers for the inputs that are evaluated in step, from one on; one behind the other."""
        chosen = numbers[start : start + self.together]
        named = "".join(f" {number}" for number in chosen)
        with refusals(f"input{named} cannot be evaluated"):
            inputs = [list(parts) for parts in zip(*map(load, chosen), strict=True)]
            outputs = program.run(TogetherEvaluator(evaluator), inputs, self.plan.output_scale)
            return b"".join(map(evaluator.save, outputs))

    def _load(self, entry: bytes, evaluator: SealEvaluator) -> Any:
        """Load an input; a ciphertext that is not fresh would fail half-way."""
        ciphertext, parameters = evaluator.load(entry), self.plan.parameters
        level, scale = evaluator.level(ciphertext), evaluator.scale(ciphertext)
        if (level, scale) != (parameters.levels, parameters.scale):
            raise FileError(
                f"it has level {level} and scale {scale:g}, inputs of this plan have {parameters.levels} and "
                f"{parameters.scale:g}"
            )
        return ciphertext

    def _spread(self, evaluator: SealEvaluator, compute: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:

        def checked(number: int) -> Any:
            with refusals("the inputs cannot be evaluated"):
                return compute(number)

        if self.workers == 1:
            return [checked(number) for number in numbers]
        computed = fork_map(lambda number: evaluator.save(checked(number)), numbers, self.workers)
        return [evaluator.load(one) for one in computed]


def split_inputs(content: bytes, plan: Plan, at_most: int) -> list[bytes]:
    """Split a request into requests that each hold what is evaluated at once: one ciphertext, or one set of them.

    A request whose header is too long for ``at_most`` of them is refused before it is read.
    """
    source, size = "the inputs", plan.parts
    container = Container.from_bytes(content, "inputs", source, most_parts=at_most * size)
    container.require(plan=plan.identity, source=source)
    entries, count = list(container.parts.values()), container.facts.get("count")
    if type(count) is not int or count < 1 or len(entries) != -(-count // plan.batch) * size:
        raise FileError(f"{source} holds {len(entries)} ciphertexts, which do not fit {count} inputs")
    groups = []
    for number, start in enumerate(range(0, len(entries), size)):
        parts = {str(at): entry for at, entry in enumerate(entries[start : start + size])}
        facts = {"count": min(plan.batch, count - number * plan.batch)}
        groups.append(Container("inputs", container.plan, container.keys, parts, facts).to_bytes())
    return groups


def key_file_bytes(plan: Plan) -> int:
    """The size of the evaluation keys that clients of this plan send, without the container around them."""
    compact = SealScheme(plan.parameters).compact
    return compact.key_bytes(1) + (compact.key_bytes(len(plan.rotations)) if plan.rotations else 0)


def request_bytes(plan: Plan, groups: int = 1) -> int:
    """The size of this many encrypted ciphertexts, or sets of them, without the container around them."""
    each = SealScheme(plan.parameters).compact.ciphertext_bytes(plan.parameters.levels + 1, seeded=True)
    return groups * plan.parts * each
