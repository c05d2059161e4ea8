"""Before anything is encrypted: will it work, with which parameters, how precisely, how fast, in how much memory?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pinets.deploy.encrypted.backend import Vector
from pinets.deploy.encrypted.circuit import Circuit
from pinets.deploy.encrypted.compile import compile_network
from pinets.deploy.encrypted.errors import PlanError
from pinets.deploy.encrypted.latency import InputLayout, LatencyProgram, choose_layout, pack, power_of_two
from pinets.deploy.encrypted.machine import measure_costs
from pinets.deploy.encrypted.memory import available_memory
from pinets.deploy.encrypted.parameters import LARGEST_PRIME, RINGS, SECURE_BITS, Parameters
from pinets.deploy.encrypted.plan import Packing, Plan, in_units
from pinets.deploy.encrypted.precision import largest_error, outputs_and_noise
from pinets.deploy.encrypted.simulate import SimulatedEvaluator
from pinets.deploy.encrypted.throughput import ThroughputProgram

__all__ = ["make_plan", "plan_network"]

_LEAST_SCALE = 24  # bits; with less, noise is all there is
_MOST_SCALE = 45
_MARGIN = 2.0  # bits that numbers may grow beyond those the plan was made with
_NOISIEST = 2  # inputs that are simulated, beside the one with the largest output
_TIMES = 8  # that they are, each time with other noise


def plan_network(model: nn.Module, calibration: Tensor, **options: Any) -> tuple[Plan, Circuit]:
    """Plan for a network, and compile it; the options are those of :func:`make_plan`.

    Example:
        >>> import torch
        >>> from pinets import CCP
        >>> plan, circuit = plan_network(CCP(16, 4, rank=8, order=4), torch.rand(32, 16), estimate_time=False)
        >>> plan.depth, plan.parameters.ring
        (4, 8192)
    """
    if calibration.ndim < 2 or len(calibration) == 0:
        raise ValueError(f"there must be inputs to plan with, with a batch axis, got shape {tuple(calibration.shape)}")
    circuit = compile_network(model, calibration[:1])
    return make_plan(circuit, calibration, **options), circuit


def make_plan(
    circuit: Circuit,
    calibration: Tensor,
    *,
    packing: Packing | Literal["auto"] = "auto",
    inputs: int = 1,
    precision: float = 1e-4,
    rings: Sequence[int] = RINGS,
    insecure: bool = False,
    memory: int | None = None,
    estimate_time: bool = True,
) -> Plan:
    """Find the smallest parameters that work, or say why there are none and what the nearest is that would work.

    Args:
        circuit: From :func:`pinets.deploy.encrypted.compile_network`.
        calibration: Typical inputs, with a batch axis; their range is what the plan is made for.
        packing: ``"auto"`` takes what is faster for so many inputs.
        inputs: How many inputs will be evaluated.
        precision: The largest deviation of an output, relative to the largest output.
        rings: The ring sizes to choose from.
        insecure: Give up security, to try things in small rings. For tests.
        memory: In bytes; what is free now if left out.
        estimate_time: Whether to measure SEAL for a moment to predict the time.
    """
    if not 0 < precision < math.inf:
        raise PlanError(f"the precision must be positive, got {precision}")
    if not insecure and (strange := [ring for ring in rings if ring not in RINGS]):
        raise PlanError(f"the ring size must be one of {', '.join(map(str, RINGS))}, got {strange[0]}")
    kinds: tuple[Packing, ...] = ("latency", "throughput") if packing == "auto" else (packing,)
    memory = available_memory() if memory is None else memory
    question = _ask(circuit, calibration, precision)
    reasons: list[str] = []
    found: list[Plan] = []
    for kind in kinds:
        try:
            trial = _smallest(question, kind, rings, insecure)
            plan = trial.plan
            if estimate_time and (costs := measure_costs(plan.parameters)) is not None:
                plan = replace(plan, seconds=sum(count * costs(*key) for key, count in trial.counts.items()))
            _require_memory(plan, memory)
            found.append(plan)
        except PlanError as error:
            reasons.append(f"{kind}: {error}")
    if not found:
        raise PlanError("; ".join(reasons))
    return min(found, key=lambda plan: _total(plan, inputs))


@dataclass(frozen=True)
class _Question:
    """What a plan is wanted for."""

    circuit: Circuit
    inputs: Tensor
    shape: tuple[int, ...]
    precision: float
    largest: float  # output
    probes: Tensor  # the hardest inputs, which are simulated


@dataclass(frozen=True)
class _Trial:
    """A plan, and the operations it takes by name and level."""

    plan: Plan
    counts: Counter[tuple[str, int]]


def _ask(circuit: Circuit, calibration: Tensor, precision: float) -> _Question:
    inputs = calibration.flatten(1).double()
    outputs, noise = (each.abs().amax(1) for each in outputs_and_noise(circuit, inputs))
    largest = float(outputs.max())
    if not math.isfinite(largest):
        raise PlanError("the network's own outputs are not finite on the inputs that were given to plan with")
    if largest == 0:
        raise PlanError(
            "the network's outputs are all 0 on the calibration inputs, and precision is relative to the largest "
            "output: plan with inputs that give others"
        )
    probes = inputs[torch.cat([outputs.topk(1).indices, noise.topk(min(_NOISIEST, len(noise))).indices])]
    return _Question(circuit, inputs, tuple(calibration.shape[1:]), precision, largest, probes)


def _total(plan: Plan, inputs: int) -> float:
    """The time for so many inputs; where it was not measured, a whole batch counts as much as some hundred inputs."""
    each = plan.seconds if plan.seconds is not None else 1.0 if plan.batch == 1 else 200.0
    return each * math.ceil(inputs / plan.batch)


def _require_memory(plan: Plan, memory: int) -> None:
    if plan.needed_bytes > memory:
        raise PlanError(
            f"keys take {in_units(plan.key_bytes)} and ciphertexts {in_units(plan.ciphertext_bytes)} of memory, "
            f"{in_units(plan.needed_bytes)} at once, and {in_units(memory)} is there; the nearest that fits has a "
            f"smaller ring (less precision or depth), or the other packing"
        )


def _smallest(question: _Question, packing: Packing, rings: Sequence[int], insecure: bool) -> _Trial:
    """The smallest ring that is precise enough."""
    best: _Trial | None = None
    reason = ""
    for ring in rings:
        for parameters in _candidates(ring, question.circuit.depth, insecure):
            try:
                trial = _try(question, parameters, packing)
            except PlanError as error:
                reason = str(error)
                continue
            if best is None or trial.plan.deviation < best.plan.deviation:
                best = trial
        if best is not None and best.plan.relative_deviation <= question.precision:
            return best
    if best is not None:
        raise PlanError(
            f"a precision of {question.precision:.1e} is out of reach: the nearest is "
            f"{best.plan.relative_deviation:.1e}, in a ring of {best.plan.parameters.ring}"
        )
    raise PlanError(reason or _too_deep(question.circuit.depth, max(rings)))


def _candidates(ring: int, depth: int, insecure: bool) -> list[Parameters]:
    """The most precise modulus chains that are secure: what base and special prime have more, the levels have less."""
    budget = SECURE_BITS.get(ring, 0)
    if insecure:
        budget = max(budget, (depth + 3) * 36)
    found = []
    for base, special in ((7, 0), (7, 3), (7, 6), (14, 0), (LARGEST_PRIME, 0)):
        for scale in range(_MOST_SCALE, _LEAST_SCALE - 1, -1):
            first = min(LARGEST_PRIME, scale + base)
            bits = (first, *(scale,) * depth, min(LARGEST_PRIME, first + special))
            if sum(bits) <= budget:
                found.append(Parameters(ring, bits, scale, insecure=insecure))
                break
    return found


def _too_deep(depth: int, ring: int) -> str:
    room = max((levels for levels in range(1, 64) if _candidates(ring, levels, False)), default=0)
    larger = next((other for other in RINGS if other > ring and _candidates(other, depth, False)), None)
    nearest = f"a ring of {larger} has room" if larger else f"the nearest network that fits has depth {room}"
    return (
        f"the network needs {depth} multiplications in a row, and at 128-bit security a ring of {ring} has room for "
        f"{room}: {nearest}. A CCP of order N needs 2 + ceil(log2 N), an NCP 2 N - 1"
    )


def _try(question: _Question, parameters: Parameters, packing: Packing) -> _Trial:
    """Evaluate a few inputs with the noise these parameters bring, and write down all that happens."""
    circuit, slots = question.circuit, parameters.slots
    evaluator = SimulatedEvaluator(parameters)
    bound = 2.0 ** (math.ceil(math.log2(max(question.largest, 2.0**-20))) + _MARGIN)
    bits = min(parameters.prime_bits[0] - 1 - max(1.0, math.log2(bound)), parameters.scale_bits + 8)
    output_scale = parameters.scale if circuit.output.is_free else 2.0**bits
    layout = choose_layout(circuit, slots) if packing == "latency" else None
    if layout is None:
        computed = _by_throughput(circuit, evaluator, question.probes, output_scale)
        repetitions = 1
        alive = 2 * sum(circuit.sizes)  # at two levels, or as they were read
    else:
        computed = _by_latency(circuit, layout, evaluator, question.probes, output_scale)
        repetitions = slots // power_of_two(circuit.output.rows)
        alive = 2 + evaluator.counts["rotate", parameters.levels]
    errors = computed - circuit(question.probes).numpy()
    if evaluator.headroom < _MARGIN - 1e-6:
        raise PlanError(f"numbers come within {evaluator.headroom:.1f} bits of the modulus; {_MARGIN} are wanted")
    plan = Plan(
        packing=packing,
        parameters=parameters,
        layout=layout,
        input_shape=question.shape,
        outputs=circuit.output.rows,
        degree=circuit.degree,
        depth=circuit.depth,
        low=float(question.inputs.min()),
        high=float(question.inputs.max()),
        output_bound=bound,
        output_scale=output_scale,
        rotations=tuple(sorted(evaluator.rotations)),
        headroom_bits=evaluator.headroom,
        largest_output=question.largest,
        deviation=largest_error(errors, slots * circuit.output.rows, repetitions),
        seconds=None,
        key_bytes=(1 + len(evaluator.rotations)) * parameters.key_bytes,
        weight_bytes=evaluator.encoded_bytes,
        ciphertext_bytes=alive * parameters.ciphertext_bytes(),
    )
    return _Trial(plan, evaluator.counts)


def _by_throughput(circuit: Circuit, evaluator: SimulatedEvaluator, inputs: Tensor, output_scale: float) -> Vector:
    """The outputs, several times."""
    repeated = inputs.repeat(_TIMES, 1)  # in slots beside each other
    columns = [evaluator.encrypt(column, evaluator.parameters.scale) for column in repeated.T.numpy()]
    rows = ThroughputProgram(circuit).run(evaluator, columns, output_scale)
    return np.stack([row.values for row in rows], axis=1).reshape(_TIMES, len(inputs), -1)


def _by_latency(
    circuit: Circuit, layout: InputLayout, evaluator: SimulatedEvaluator, inputs: Tensor, output_scale: float
) -> Vector:
    """The outputs, several times: weights too are encoded anew, since their rounding errors hit all inputs alike."""
    slots, scale = evaluator.parameters.slots, evaluator.parameters.scale
    program = LatencyProgram(circuit, layout, slots, keep=False)
    packed = np.stack([pack(one, layout, slots) for one in inputs.numpy()])
    computed = []
    for _ in range(_TIMES):
        evaluator.counts.clear()  # of one time alone
        evaluator.encoded_bytes = 0
        out = program.run(evaluator, evaluator.encrypt(packed, scale), output_scale)
        computed.append([program.unpack(one) for one in out.values])
    return np.array(computed)
