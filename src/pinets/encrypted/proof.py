r"""Proofs about a plan that hold for every input in its range.

The very program that the server will run is run on enclosures. A slot is the middle and the radius of an interval that
holds the plain number for every input in the range, and a bound for the deviation of the encrypted number from it.
Fresh noise, encoding, rescaling and key switching each add to the deviation, and products multiply it:

.. math:: |u v - \hat u \hat v| \le |u| \delta_v + |v| \delta_u + \delta_u \delta_v.

The noise of CKKS is random, with the usual model (see :mod:`pinets.encrypted.simulate`): each noise term stays below
its bound but for a chance of :math:`2^{-40}` for all terms of an evaluation together. Nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.latency import unpack
from pinets.encrypted.packings import make_program, pack_inputs
from pinets.encrypted.plan import Parameters, Plan
from pinets.encrypted.simulate import FRESH, ROUNDING, Simulated, SimulatedEvaluator

__all__ = ["RISK_BITS", "Enclosed", "Proof", "ProvingEvaluator", "prove"]

RISK_BITS = 40  # the chance that any noise term of an evaluation exceeds its bound is 2 to the power of minus this
_TERMS_BITS = 30  # an evaluation has at most 2 to this many noise terms, each slot of each operation counted
_TAIL = (RISK_BITS + _TERMS_BITS) * math.log(2)
_NORMAL = math.sqrt(2 * (_TAIL + math.log(2)))  # in standard deviations, for noise that is not multiplied by the secret
_LAPLACE = _TAIL / math.sqrt(2)  # for noise times the secret, which is Laplace distributed over the slots
_SLACK = 1.01  # SEAL's primes are not powers of two, and double precision rounds


@dataclass(frozen=True)
class Enclosed(Simulated):
    """An enclosure of the numbers in a ciphertext or plaintext; ``values`` are the middles."""

    radius: Vector  # the largest distance of a plain number from its middle, over all inputs in the range
    deviation: Vector  # the largest distance of an encrypted number from the plain one

    @property
    def largest(self) -> Vector:
        """The largest plain number in each slot."""
        return np.abs(self.values) + self.radius


@dataclass(frozen=True)
class Proof:
    """Bounds that hold for every input in the range of a plan."""

    output: float  # the largest
    deviation: float  # the largest of an output
    headroom: float  # the least number of bits between a number and half the modulus; numbers can overflow if negative
    level: int  # at which that is
    noise_terms: int  # 2**30 are allowed for

    @property
    def closed(self) -> bool:
        return self.headroom > 0 and math.isfinite(self.deviation) and self.noise_terms <= 2**_TERMS_BITS

    def __str__(self) -> str:
        if self.closed:
            return f"outputs up to {self.output:.4g}, deviation at most {self.deviation:.2g}"
        if self.noise_terms > 2**_TERMS_BITS:
            return f"there are {self.noise_terms} noise terms, more than the 2^{_TERMS_BITS} that the bound allows for"
        where = "an output" if self.level == 0 else f"a number with {self.level} multiplications left"
        return f"{where} can exceed the modulus by {-self.headroom:.1f} bits"


class ProvingEvaluator(SimulatedEvaluator):
    """An evaluator on enclosures; ``largest_output`` bounds the outputs where intervals are too loose."""

    def __init__(self, parameters: Parameters, *, largest_output: float = math.inf) -> None:
        super().__init__(parameters)
        self.largest_output = largest_output
        self.tightest = 0  # the level with the least headroom
        self.noise_terms = 0

    def enclose(self, middle: Vector, radius: Vector, scale: float) -> Enclosed:
        """Fresh ciphertexts of numbers in intervals."""
        error = _NORMAL * (FRESH + ROUNDING) * self._spread / scale
        fresh = Enclosed(middle, self.parameters.levels, scale, radius, np.zeros_like(middle))
        return self._widened(fresh, error)

    def encode(self, values: Vector | float, level: int, scale: float) -> Enclosed:
        self._require_scale(level, scale)
        if isinstance(values, float):
            return Enclosed(np.array([values]), level, scale, np.zeros(1), np.full(1, 0.5 / scale))
        plain = Enclosed(values, level, scale, np.zeros_like(values), np.zeros_like(values))
        return self._widened(plain, _NORMAL * ROUNDING * self._spread / scale)

    def add(self, left: Simulated, right: Simulated) -> Enclosed:
        a, b = _as_enclosed(left), _as_enclosed(right)
        return replace(a, values=a.values + b.values, radius=a.radius + b.radius, deviation=a.deviation + b.deviation)

    def multiply(self, left: Simulated, right: Simulated) -> Simulated:
        self._require_scale(left.level, left.scale * right.scale)
        return self._rescaled(self._switched(_product(_as_enclosed(left), _as_enclosed(right))))

    def multiply_plain(self, left: Simulated, right: Simulated) -> Enclosed:
        self._require_scale(left.level, left.scale * right.scale)
        return _product(_as_enclosed(left), _as_enclosed(right))

    def weighted_sum(self, ciphertexts: Sequence[Simulated], weights: Vector, scale: float) -> Enclosed:
        enclosed = [_as_enclosed(one) for one in ciphertexts]
        first = enclosed[0]
        self._require_scale(first.level, first.scale * scale)
        rounding = np.where(weights != 0, 0.5 / scale, 0.0)
        if not np.rint(weights * scale).any():
            rounding[0] = 1 / scale  # as SEAL refuses products with 0
        sizes = np.stack([one.largest for one in enclosed])
        deviations = np.stack([one.deviation for one in enclosed])
        return Enclosed(
            weights @ np.stack([one.values for one in enclosed]),
            first.level,
            first.scale * scale,
            np.abs(weights) @ np.stack([one.radius for one in enclosed]),
            np.abs(weights) @ deviations + rounding @ (sizes + deviations),
        )

    def rotate(self, ciphertext: Simulated, step: int) -> Simulated:
        one = _as_enclosed(ciphertext)
        values, radius, deviation = (np.roll(each, -step, axis=-1) for each in (one.values, one.radius, one.deviation))
        return self._switched(replace(one, values=values, radius=radius, deviation=deviation))

    def _disturbed(self, ciphertext: Simulated, error: float | Vector) -> Enclosed:
        return self._widened(_as_enclosed(ciphertext), _LAPLACE * error * self._spread / ciphertext.scale)

    def _widened(self, enclosed: Enclosed, error: float | Vector) -> Enclosed:
        self.noise_terms += enclosed.values.size
        return replace(enclosed, deviation=enclosed.deviation + error)

    def _checked(self, ciphertext: Simulated) -> Simulated:
        one = _as_enclosed(ciphertext)
        sizes = one.largest if one.level else np.minimum(one.largest, self.largest_output)
        largest = _SLACK * float((sizes + one.deviation).max(initial=0.0))
        modulus_bits = sum(self.parameters.prime_bits[: one.level + 1])
        bits = modulus_bits - 1 - math.log2(max(largest * one.scale, 1e-300)) if largest < math.inf else -math.inf
        if bits < self.headroom:
            self.headroom, self.tightest = bits, one.level
        return ciphertext


def prove(plan: Plan, circuit: Circuit, *, largest_output: float = math.inf) -> Proof:
    """Bound all numbers and deviations of a plan for every input in its range.

    ``largest_output`` is a sound bound for the outputs and check values, if one is known.
    """
    circuit = circuit.with_check(plan.check_weights)
    evaluator = ProvingEvaluator(plan.parameters, largest_output=largest_output)
    slots, scale = plan.parameters.slots, plan.parameters.scale
    half = (plan.high - plan.low) / 2 * (1 + 4e-6)  # the client tolerates the rounding of single precision
    sides = [np.full(circuit.size, side) for side in ((plan.low + plan.high) / 2, half)]
    program = make_program(circuit, plan.arrangement, slots, keep=False)
    middles, radii = (pack_inputs(side[None], plan.arrangement, slots)[0] for side in sides)
    with np.errstate(over="ignore", invalid="ignore"):
        inputs = [evaluator.enclose(*one, scale=scale) for one in zip(middles, radii, strict=True)]
        outputs = program.run(evaluator, inputs, plan.output_scale)
    if isinstance(outputs, list):  # throughput: one for each output
        deviation, sizes = (np.stack([getattr(one, name) for one in outputs]) for name in ("deviation", "largest"))
    else:  # an output is the mean of its repetitions, so it deviates by at most the mean of their bounds
        deviation, sizes = (unpack(each, circuit.output.rows) for each in (outputs.deviation, outputs.largest))
    terms = evaluator.noise_terms * (slots if plan.packing == "throughput" else 1)
    largest = min(float(sizes.max()), largest_output)
    headroom = evaluator.headroom if math.isfinite(evaluator.headroom) else -math.inf
    return Proof(largest, _SLACK * float(deviation.max()), headroom, evaluator.tightest, terms)


def _as_enclosed(one: Simulated) -> Enclosed:
    assert isinstance(one, Enclosed)
    return one


def _product(left: Enclosed, right: Enclosed) -> Enclosed:
    """The product of intervals, and of what deviates from them; the result has both scales."""
    corners = [(left.values + a * left.radius) * (right.values + b * right.radius) for a in (-1, 1) for b in (-1, 1)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    deviation = left.largest * right.deviation + right.largest * left.deviation + left.deviation * right.deviation
    return Enclosed((low + high) / 2, left.level, left.scale * right.scale, (high - low) / 2, deviation)
