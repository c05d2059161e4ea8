"""A simulator of CKKS: the operations on plain numbers, with the noise that encryption adds. Plans are made with it.

The noise is Gaussian, with the size that the usual average-case analysis of CKKS gives for a ternary secret.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Affine, Circuit
from pinets.encrypted.errors import PlanError
from pinets.encrypted.plan import Parameters
from pinets.encrypted.stencil import apply, squares

__all__ = ["FRESH", "ROUNDING", "Simulated", "SimulatedEvaluator", "largest_error", "outputs_and_noise"]

FRESH = 3.2  # standard deviation of the error in a fresh ciphertext
ROUNDING = 1 / math.sqrt(12)  # standard deviation of rounding to whole numbers
_RISK = 0.01  # chance that one of the errors exceeds the stated deviation
_MANY = 16  # repetitions from which on their mean is about normal


@dataclass(frozen=True)
class Simulated:
    """The numbers in a ciphertext or plaintext; with a batch axis, in several."""

    values: Vector
    level: int
    scale: float


class SimulatedEvaluator:
    """Simulates an evaluator, counts its operations, and refuses numbers and scales that are too large.

    Attributes:
        counts: The number of operations, by name and level.
        rotations: The rotation steps, each of which needs a key.
        encoded_bytes: The memory of all plaintexts.
        headroom: The least number of bits between a number and the modulus so far.
    """

    def __init__(self, parameters: Parameters, *, noise: bool = True, seed: int = 0) -> None:
        self.parameters = parameters
        self.counts: Counter[tuple[str, int]] = Counter()
        self.rotations: set[int] = set()
        self.headroom = math.inf
        self.encoded_bytes = 0
        self._noise = noise
        self._random = np.random.default_rng(seed)
        # the factor from an error in the coefficients to the error in the slots
        self._spread = math.sqrt(parameters.ring / 2)
        # rounding the second half of a ciphertext, times the secret
        self._rounding = ROUNDING * math.sqrt(1 + 2 * parameters.ring / 3)
        self._edge = _edge(parameters.ring)

    def encrypt(self, values: Vector, scale: float) -> Simulated:
        return self._disturbed(Simulated(values, self.parameters.levels, scale), FRESH)

    def prime(self, level: int) -> float:
        return 2.0 ** self.parameters.prime_bits[level]

    def level(self, ciphertext: Simulated) -> int:
        return ciphertext.level

    def scale(self, ciphertext: Simulated) -> float:
        return ciphertext.scale

    def encode(self, values: Vector | float, level: int, scale: float) -> Simulated:
        self._require_scale(level, scale)
        if isinstance(values, float):
            return Simulated(np.array([values]), level, scale)
        self.encoded_bytes += self.parameters.plaintext_bytes(level)
        self.counts["encode", level] += 1
        return self._disturbed(Simulated(values, level, scale), ROUNDING)

    def add(self, left: Simulated, right: Simulated) -> Simulated:
        # not checked: a partial sum may exceed the modulus as long as the whole sum does not
        return replace(left, values=left.values + right.values)

    def add_plain(self, left: Simulated, right: Simulated) -> Simulated:
        return self._checked(self.add(left, right))

    def multiply(self, left: Simulated, right: Simulated) -> Simulated:
        self.counts["multiply", left.level] += 1
        self._require_scale(left.level, left.scale * right.scale)
        out = Simulated(left.values * right.values, left.level, left.scale * right.scale)
        return self._rescaled(self._switched(out))

    def multiply_plain(self, left: Simulated, right: Simulated) -> Simulated:
        self.counts["multiply_plain", left.level] += 1
        self._require_scale(left.level, left.scale * right.scale)
        return Simulated(left.values * right.values, left.level, left.scale * right.scale)

    def weighted_sum(self, ciphertexts: Sequence[Simulated], weights: Vector, scale: float) -> Simulated:
        first = ciphertexts[0]
        self._require_scale(first.level, first.scale * scale)
        self.counts["multiply_plain", first.level] += int(np.count_nonzero(weights))
        inputs = np.stack([ciphertext.values for ciphertext in ciphertexts])
        values = weights @ inputs
        if self._noise:
            # The rounding errors of the weights, each times its input. SEAL's scales differ slightly from those here,
            # so the errors are drawn anew for each slot.
            spread = np.sqrt((weights != 0) @ np.square(inputs)) * ROUNDING / scale
            values = values + spread * self._random.standard_normal(values.shape)
        return Simulated(values, first.level, first.scale * scale)

    def rotate(self, ciphertext: Simulated, step: int) -> Simulated:
        self.counts["rotate", ciphertext.level] += 1
        self.rotations.add(step)
        return self._switched(replace(ciphertext, values=np.roll(ciphertext.values, -step, axis=-1)))

    def rescale(self, ciphertext: Simulated) -> Simulated:
        self.counts["rescale", ciphertext.level] += 1
        return self._rescaled(ciphertext)

    def lower(self, ciphertext: Simulated, level: int) -> Simulated:
        return self._checked(replace(ciphertext, level=level))

    def _rescaled(self, ciphertext: Simulated) -> Simulated:
        level = ciphertext.level
        out = replace(ciphertext, level=level - 1, scale=ciphertext.scale / self.prime(level))
        return self._checked(self._disturbed(out, self._rounding))

    def _switched(self, ciphertext: Simulated) -> Simulated:
        """Add the noise of key switching: each digit times an error, divided by the special prime, and rounded.

        SEAL's digits are not centred, so their mean is large in the first slots.
        """
        bits, ring = self.parameters.prime_bits, self.parameters.ring
        digits = FRESH * math.sqrt(sum(4.0 ** (size - bits[-1]) for size in bits[: ciphertext.level + 1]))
        edge = digits * self._edge[: ciphertext.values.shape[-1]] / 2
        return self._disturbed(ciphertext, np.sqrt(ring * (ROUNDING * digits) ** 2 + edge**2 + self._rounding**2))

    def _disturbed(self, ciphertext: Simulated, error: float | Vector) -> Simulated:
        if not self._noise:
            return ciphertext
        size = error * self._spread / ciphertext.scale
        # most of a plan's time is spent here; single precision is faster, and enough for noise
        noise = self._random.standard_normal(ciphertext.values.shape, dtype=np.float32)
        return replace(ciphertext, values=ciphertext.values + size * noise)

    def _require_scale(self, level: int, scale: float) -> None:
        """Refuse a scale that SEAL would refuse with "scale out of bounds"."""
        modulus_bits = sum(self.parameters.prime_bits[: level + 1])
        if math.log2(scale) + 1 >= modulus_bits:
            raise PlanError(f"a scale of 2^{math.log2(scale):.1f} does not fit {modulus_bits} bits of modulus")

    def _checked(self, ciphertext: Simulated) -> Simulated:
        """Refuse numbers that, times the scale, reach half the modulus: they would wrap around."""
        modulus_bits = sum(self.parameters.prime_bits[: ciphertext.level + 1])
        largest = float(np.abs(ciphertext.values).max(initial=0.0))
        bits = modulus_bits - 1 - math.log2(max(largest, 1e-300) * ciphertext.scale)
        self.headroom = min(self.headroom, bits)
        if bits <= 0:
            raise PlanError(
                f"a number of size {largest:.3g} does not fit {modulus_bits} bits of modulus at scale "
                f"2^{math.log2(ciphertext.scale):.1f}: {-bits:.1f} bits are missing"
            )
        return ciphertext


def _edge(ring: int) -> Vector:
    """The size of the polynomial 1 + X + X^2 + ... in each slot."""
    powers = np.array([pow(3, slot, 2 * ring) for slot in range(ring // 2)])
    return 2 / np.abs(1 - np.exp(1j * np.pi * powers / ring))


def outputs_and_noise(circuit: Circuit, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs for a batch, and the variance of their noise if every step adds noise of variance one.

    The noise of different factors counts as independent, which is enough to find the noisiest inputs.
    """
    values, variances = [inputs], [torch.ones_like(inputs)]

    def affine(form: Affine) -> tuple[Tensor, Tensor]:
        out = form(values)
        variance = torch.ones_like(out)
        for value, matrix in form.terms.items():
            variance = variance + apply(squares(matrix), variances[value])
        return out, variance

    for product in circuit.products:
        value, variance = affine(product.factors[0])
        for factor in product.factors[1:]:
            other, more = affine(factor)
            value, variance = value * other, variance * other.square() + more * value.square() + 1
        values.append(value)
        variances.append(variance)
    return affine(circuit.output)


def largest_error(errors: Vector, count: int, repetitions: int) -> float:
    """A bound for the largest of many errors, at a risk of 1 %.

    Rounding errors are multiplied by the secret, which differs from slot to slot. Over all slots they are therefore
    Laplace distributed, with a heavier tail than the normal distribution, unless an output is the mean of many slots.

    Args:
        errors: Errors of shape (draws of the noise, inputs, outputs).
        count: The number of errors whose largest is bounded.
        repetitions: The number of slots whose mean is an output.
    """
    deviation = float(np.sqrt(np.square(errors).mean(0)).max())
    chance = _RISK / count
    if repetitions >= _MANY:
        return deviation * NormalDist().inv_cdf(1 - chance / 2)
    return deviation * -math.log(chance) / math.sqrt(2)
