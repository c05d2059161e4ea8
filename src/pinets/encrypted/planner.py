"""The planner: finds the smallest parameters that meet a precision, and predicts time and memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.compile import compile_network
from pinets.encrypted.errors import PlanError
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.latency import LatencyProgram, power_of_two, unpack
from pinets.encrypted.machine import available_memory, measure_costs
from pinets.encrypted.moduli import candidates, headroom, output_scale, too_deep
from pinets.encrypted.packings import Arrangement, Program, choose_arrangement, make_program, pack_inputs
from pinets.encrypted.plan import (
    CHECKS,
    LARGEST_PRIME,
    RINGS,
    GridLayout,
    InputLayout,
    Packing,
    Parameters,
    Plan,
    in_units,
)
from pinets.encrypted.proof import prove
from pinets.encrypted.reach import Reach, proven_reach, sampled_reach, searched_reach
from pinets.encrypted.simulate import SimulatedEvaluator, largest_error, outputs_and_noise
from pinets.encrypted.throughput import ThroughputProgram

__all__ = ["check_weights", "make_plan", "plan_network"]

_NOISIEST = 2  # simulated inputs, beside the one with the largest output
_NOISE_DRAWS = 8
_HINT = "; room for the calibration inputs alone (--room inputs) leaves more bits for precision"
_SAMPLED = 256  # calibration inputs whose numbers must fit, with room="inputs"
_GRID_DRAWS = 2  # a draw of a large network takes seconds
_MOST_CALIBRATION = 2**25  # entries of all values of all inputs from which the hardest are chosen
_TOLERANCE = 2.0**-14  # of the modulus: a check value that differs by more reveals an overflow


def plan_network(model: nn.Module, calibration: Tensor, **options: Any) -> tuple[Plan, Circuit]:
    """Compile a network and plan for it; the options are those of :func:`make_plan`.

    Example:
        >>> import torch
        >>> from pinets import CCP
        >>> plan, circuit = plan_network(CCP(16, 4, rank=8, order=4), torch.rand(32, 16), estimate_time=False)
        >>> plan.depth, plan.parameters.ring
        (4, 8192)
    """
    if calibration.ndim < 2 or len(calibration) == 0:
        raise ValueError(f"calibration must be inputs with a batch axis, got shape {tuple(calibration.shape)}")
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
    proof: bool = False,
    room: Literal["range", "inputs"] = "range",
) -> Plan:
    """Find the smallest parameters that meet a precision.

    The :class:`PlanError` for an impossible request says why, and names the nearest request that can be met.

    Args:
        circuit: From :func:`pinets.encrypted.compile_network`.
        calibration: Typical inputs, with a batch axis; the plan is for their range.
        packing: ``"auto"`` takes the faster one for ``inputs``.
        inputs: The number of inputs to be evaluated.
        precision: The largest deviation of an output, relative to the largest output.
        rings: The ring sizes to choose from.
        insecure: Give up security, for tests in small rings.
        memory: The memory in bytes; by default what is free now.
        estimate_time: Whether to measure SEAL for a moment to predict the time.
        proof: Whether to accept only a plan in which nothing can overflow for any input in the range, with a proven
            bound for the deviation; see :mod:`pinets.encrypted.proof`.
        room: ``"range"``: all numbers must fit for every input in the range of the calibration inputs. ``"inputs"``:
            for the calibration inputs alone, with a margin of 20 bits; networks of high degree need that, since some
            input in the range, unlike any image, makes their numbers explode.
    """
    if proof and room == "inputs":
        raise PlanError("a proof is about every input in the range, not about room for the calibration inputs alone")
    if not 0 < precision < math.inf:
        raise PlanError(f"the precision must be positive, got {precision}")
    if not insecure and (strange := [ring for ring in rings if ring not in RINGS]):
        raise PlanError(f"the ring size must be one of {', '.join(map(str, RINGS))}, got {strange[0]}")
    kinds: tuple[Packing, ...] = ("latency", "throughput") if packing == "auto" else (packing,)
    if packing == "auto" and circuit.stencils:
        kinds = (*kinds, "grid")
    memory = available_memory() if memory is None else memory
    question = _ask(circuit, calibration, precision)
    reaches = ("sampled",) if room == "inputs" else ("proven",) if proof else ("proven", "searched")
    reasons: list[str] = []
    found: list[Plan] = []
    for kind in kinds:
        try:
            trial = _smallest(question, kind, rings, insecure, reaches, proof)
            plan = trial.plan
            if estimate_time and (costs := measure_costs(plan.parameters)) is not None:
                kept = plan.keeps_weights(memory)
                spent = [costs(*key) * count for key, count in trial.counts.items() if key[0] != "encode" or not kept]
                plan = replace(plan, seconds=sum(spent))
            if plan.needed_bytes > memory:
                raise PlanError(
                    f"keys take {in_units(plan.key_bytes)} and ciphertexts {in_units(plan.ciphertext_bytes)} of "
                    f"memory, {in_units(plan.needed_bytes)} at once, and {in_units(memory)} is free; a smaller ring "
                    f"(with less precision or depth) or the other packing takes less"
                )
            found.append(plan)
        except PlanError as error:
            reasons.append(f"{kind}: {error}")
    if not found:
        advice = f". {_what_would_close(question, max(rings), insecure)}" if proof else ""
        raise PlanError("; ".join(reasons) + advice)

    def total(plan: Plan) -> float:  # if not measured, a batch counts as much as 200 single inputs
        each = plan.seconds if plan.seconds is not None else 1.0 if plan.batch == 1 else 200.0
        return each * math.ceil(inputs / plan.batch)

    return min(found, key=total)


@dataclass(frozen=True)
class _Question:
    """A circuit, its calibration inputs and the wanted precision."""

    bare: Circuit
    circuit: Circuit  # with check values
    check_weights: tuple[tuple[float, ...], ...]
    inputs: Tensor
    shape: tuple[int, ...]
    precision: float
    largest: float  # the largest output
    probes: Tensor  # the hardest inputs, which are simulated
    programs: dict[tuple[Packing, int], tuple[Arrangement, Program]] = field(default_factory=dict)

    @property
    def low(self) -> float:
        return float(self.inputs.min())

    @property
    def high(self) -> float:
        return float(self.inputs.max())

    @property
    def constant(self) -> float:
        """The largest constant of the outputs and check values."""
        return float(self.circuit.output.constant.abs().max())

    def program(self, packing: Packing, slots: int) -> tuple[Arrangement, Program]:
        """The layout and the program of a packing; those of the grid packing take seconds to make."""
        if (packing, slots) not in self.programs:
            layout = choose_arrangement(packing, self.circuit, slots)
            self.programs[packing, slots] = layout, make_program(self.circuit, layout, slots, keep=False)
        return self.programs[packing, slots]

    @cached_property
    def proven(self) -> Reach:
        return proven_reach(self.circuit, self.low, self.high, self.largest)

    @cached_property
    def sampled(self) -> Reach:
        return sampled_reach(self.circuit, self.inputs[:: -(-len(self.inputs) // _SAMPLED)])

    @cached_property
    def searched(self) -> Reach:
        return searched_reach(self.circuit, self.low, self.high, self.probes)


@dataclass(frozen=True)
class _Trial:
    """A plan, and the operations it takes by name and level."""

    plan: Plan
    counts: Counter[tuple[str, int]]


def _ask(circuit: Circuit, calibration: Tensor, precision: float) -> _Question:
    weights = check_weights(circuit.output.rows)
    bare, circuit = circuit, circuit.with_check(weights)
    inputs = calibration.flatten(1).double()
    most = max(16, _MOST_CALIBRATION // sum(circuit.sizes))
    chosen = inputs[:: -(-len(inputs) // most)]
    found = [outputs_and_noise(circuit, some) for some in chosen.split(64)]
    outputs, noise = (torch.cat([one[at].abs().amax(1) for one in found]) for at in (0, 1))
    largest = float(outputs.max())
    if not math.isfinite(largest):
        raise PlanError("the outputs of the plain network are not finite on the calibration inputs")
    if largest == 0:
        raise PlanError(
            "the outputs of the network are all 0 on the calibration inputs, and precision is relative to the largest "
            "output: plan with other inputs"
        )
    probes = chosen[torch.cat([outputs.topk(1).indices, noise.topk(min(_NOISIEST, len(noise))).indices])]
    return _Question(bare, circuit, weights, inputs, tuple(calibration.shape[1:]), precision, largest, probes)


def check_weights(outputs: int) -> tuple[tuple[float, ...], ...]:
    """Weights of the check values: irrational, so that no multiple of the modulus matches, and with a sum below 1.

    >>> check_weights(2)
    ((-0.085..., 0.328...), (-0.263..., -0.027...))
    """
    steps = (math.sqrt(2) - 1, math.sqrt(5) - 2)[:CHECKS]
    return tuple(tuple((2 * (number * step % 1) - 1) / outputs for number in range(1, outputs + 1)) for step in steps)


def _smallest(
    question: _Question, packing: Packing, rings: Sequence[int], insecure: bool, reaches: Sequence[str], proof: bool
) -> _Trial:
    """The plan in the smallest ring that is precise enough; in that ring, one that is proven if there is one.

    With a proof, the smallest ring in which the proven deviation is small, too; if there is none, in which it is least.
    """
    best: _Trial | None = None
    precise: list[_Trial] = []
    reason = ""
    for ring in rings:
        for name in reaches:
            for parameters in candidates(ring, question.circuit.depth, insecure):
                try:
                    trial = _try(question, parameters, packing, getattr(question, name))
                    if proof:
                        trial = replace(trial, plan=_proven(question, trial.plan))
                except PlanError as error:
                    reason = str(error)
                    continue
                if best is None or trial.plan.deviation < best.plan.deviation:
                    best = trial
                if packing == "grid" and trial.plan.relative_deviation <= question.precision:
                    break  # others would be simulated for minutes
            if best is not None and best.plan.relative_deviation <= question.precision:
                precise.append(best)
                if not proof or best.plan.proof_is_useful:
                    return best
    if precise:
        return min(precise, key=lambda trial: trial.plan.proven_deviation or math.inf)
    if best is not None:
        raise PlanError(
            f"a precision of {question.precision:.1e} is out of reach: the nearest is "
            f"{best.plan.relative_deviation:.1e}, in a ring of {best.plan.parameters.ring}"
            f"{_HINT if 'searched' in reaches else ''}"
        )
    raise PlanError(reason or too_deep(question.circuit.depth, max(rings)))


def _proven(question: _Question, plan: Plan) -> Plan:
    """The same plan with a bound for its deviation; refuses one whose numbers can overflow."""
    found = prove(plan, question.bare, largest_output=question.proven.output)
    if not found.closed:
        raise PlanError(f"the proof does not close: for some inputs in the range, {found}")
    return replace(plan, proven_deviation=found.deviation, headroom_bits=found.headroom)


def _what_would_close(question: _Question, ring: int, insecure: bool) -> str:
    """Which range or ring leaves room for all numbers by interval arithmetic, or how many bits are missing."""
    larger = next((other for other in RINGS if other > ring and _room(question, other, insecure, 1.0) > 0), None)
    hints = [f"a ring of {larger} has room"] if larger else []
    middle, half = (question.low + question.high) / 2, (question.high - question.low) / 2
    share = next((2.0**-power for power in range(1, 11) if _room(question, ring, insecure, 2.0**-power) > 0), None)
    if share is not None:
        hints.append(f"inputs from {middle - share * half:.4g} to {middle + share * half:.4g} have room")
    missing = -_room(question, ring, insecure, 1.0)
    if 0 < missing < math.inf:
        hints.append(
            f"so has a network whose numbers are 2^{missing:.0f} times smaller (weight decay, a range penalty)"
        )
    return "What would close it: " + ("; ".join(hints) if hints else "no range of the same middle that was tried")


def _room(question: _Question, ring: int, insecure: bool, share: float) -> float:
    """The bits left in a ring for inputs in a share of the range."""
    middle, half = (question.low + question.high) / 2, (question.high - question.low) / 2
    reach = proven_reach(question.circuit, middle - share * half, middle + share * half, math.inf)
    if not 0 < reach.output < 2.0**LARGEST_PRIME:
        return -math.inf
    found = candidates(ring, question.circuit.depth, insecure)
    constant = question.constant
    return max((headroom(reach, each, output_scale(reach, each, constant), 1) for each in found), default=-math.inf)


def _try(question: _Question, parameters: Parameters, packing: Packing, reach: Reach) -> _Trial:
    """Simulate the hardest inputs with these parameters, and with room for all numbers within reach."""
    circuit, slots = question.circuit, parameters.slots
    evaluator = SimulatedEvaluator(parameters)
    if not reach.output < 2.0**LARGEST_PRIME:
        raise PlanError(f"outputs can reach {reach.output:.3g} in the range, which fits no modulus")
    scale_of_output = output_scale(reach, parameters, question.constant)
    area = max((stencil.pool for stencil in circuit.stencils), default=1) ** 2 if packing == "grid" else 1
    free = headroom(reach, parameters, scale_of_output, area)
    if free < 0:
        raise PlanError(f"numbers can exceed the modulus by {-free:.1f} bits for inputs in the range")
    room = 2.0 ** (parameters.prime_bits[0] - 1) / scale_of_output
    arrangement, program = question.program(packing, slots)
    computed = _simulated(program, arrangement, evaluator, question.probes, scale_of_output)
    repetitions = 1 if packing == "throughput" else slots // power_of_two(circuit.output.rows)
    if isinstance(program, GridProgram):
        alive = program.alive
    elif isinstance(program, LatencyProgram):
        alive = 2 + evaluator.counts["rotate", parameters.levels]
    else:
        alive = 2 * sum(circuit.sizes)  # each value at two levels
    errors = computed - circuit(question.probes).numpy()
    deviation = largest_error(errors, slots * circuit.output.rows, repetitions)
    plan = Plan(
        packing=packing,
        parameters=parameters,
        layout=arrangement if isinstance(arrangement, InputLayout) else None,
        grid=arrangement if isinstance(arrangement, GridLayout) else None,
        input_shape=question.shape,
        outputs=circuit.output.rows - CHECKS,
        degree=circuit.degree,
        depth=circuit.depth,
        low=question.low,
        high=question.high,
        output_bound=room,
        output_scale=scale_of_output,
        check_weights=question.check_weights,
        rotations=tuple(sorted(evaluator.rotations)),
        proven=reach.proven,
        covers=reach.covers,
        headroom_bits=free,
        largest_output=question.largest,
        deviation=deviation,
        proven_deviation=None,
        check_tolerance=max(4 * deviation, _TOLERANCE * 2 * room),
        seconds=None,
        key_bytes=(1 + len(evaluator.rotations)) * parameters.key_bytes,
        weight_bytes=evaluator.encoded_bytes,
        ciphertext_bytes=alive * parameters.ciphertext_bytes(),
    )
    return _Trial(plan, evaluator.counts)


def _simulated(
    program: Program,
    arrangement: Arrangement,
    evaluator: SimulatedEvaluator,
    inputs: Tensor,
    output_scale: float,
) -> Vector:
    """The simulated outputs for several draws of the noise; the evaluator keeps the counts of one evaluation."""
    slots, scale = evaluator.parameters.slots, evaluator.parameters.scale
    if isinstance(program, ThroughputProgram):
        (columns,) = pack_inputs(inputs.repeat(_NOISE_DRAWS, 1).numpy(), None, slots)  # each draw in slots of its own
        rows = program.run(evaluator, [evaluator.encrypt(column, scale) for column in columns], output_scale)
        return np.stack([row.values for row in rows], axis=1).reshape(_NOISE_DRAWS, len(inputs), -1)
    packed = np.array(pack_inputs(inputs.numpy(), arrangement, slots)).swapaxes(0, 1)  # ciphertexts x inputs x slots
    computed = []
    for _ in range(_GRID_DRAWS if isinstance(program, GridProgram) else _NOISE_DRAWS):
        evaluator.counts.clear()
        evaluator.encoded_bytes = 0
        out = program.run(evaluator, [evaluator.encrypt(one, scale) for one in packed], output_scale)
        computed.append([unpack(one, program.rows) for one in out.values])
    return np.array(computed)
