"""The same operations on plain numbers, with the noise that encryption would add: what a plan is checked with.

Noise is Gaussian, of the size that the usual average-case analysis of CKKS gives for a ternary secret: it is what makes
"expected precision" a computed figure. Nothing here is secret or secure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinets.deploy.encrypted.backend import Vector
from pinets.deploy.encrypted.errors import PlanError
from pinets.deploy.encrypted.parameters import Parameters

__all__ = ["Simulated", "SimulatedEvaluator"]

_FRESH = 3.2  # standard deviation of the error in a fresh ciphertext
_ROUNDING = 1 / math.sqrt(12)  # of rounding to whole numbers


@dataclass(frozen=True)
class Simulated:
    """Numbers that stand for a ciphertext, or for a plaintext; with a batch axis, for several ciphertexts at once."""

    values: Vector
    level: int
    scale: float


class SimulatedEvaluator:
    """Counts operations by name and level, collects the steps of rotations, and refuses numbers and scales too large.

    Args:
        parameters: Of the scheme that is simulated.
        noise: Whether to add it.
        seed: Of the noise.

    Attributes:
        counts: How often each operation was done, by its name and the level of its argument.
        rotations: The steps that keys are needed for.
        encoded_bytes: The memory of all plaintexts.
        headroom: Bits by which all numbers so far stayed below the modulus; the least of them.
    """

    def __init__(self, parameters: Parameters, *, noise: bool = True, seed: int = 0) -> None:
        self.parameters = parameters
        self.counts: Counter[tuple[str, int]] = Counter()
        self.rotations: set[int] = set()
        self.headroom = math.inf
        self.encoded_bytes = 0
        self._noise = noise
        self._random = np.random.default_rng(seed)
        # an error in the coefficients is this much larger in the slots
        self._spread = math.sqrt(parameters.ring / 2)
        # what rounding a ciphertext's second half does, multiplied by the secret
        self._rounding = _ROUNDING * math.sqrt(1 + 2 * parameters.ring / 3)
        self._edge = _edge(parameters.ring)

    def encrypt(self, values: Vector, scale: float) -> Simulated:
        return self._disturbed(Simulated(values, self.parameters.levels, scale), _FRESH)

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
        return self._disturbed(Simulated(values, level, scale), _ROUNDING)

    def add(self, left: Simulated, right: Simulated) -> Simulated:
        # a partial sum may be too large: what counts, modulo the modulus, is the whole
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
        rounded = np.rint(weights * scale) / scale
        values = rounded @ np.stack([ciphertext.values for ciphertext in ciphertexts])
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
        out = Simulated(ciphertext.values, level - 1, ciphertext.scale / self.prime(level))
        return self._checked(self._disturbed(out, self._rounding))

    def _switched(self, ciphertext: Simulated) -> Simulated:
        """The noise of switching keys: each digit times an error, divided by the special prime, and rounded.

        SEAL's digits are not centred. Their mean, a polynomial of equal coefficients, is large in the first slots.
        """
        bits, ring = self.parameters.prime_bits, self.parameters.ring
        digits = _FRESH * math.sqrt(sum(4.0 ** (size - bits[-1]) for size in bits[: ciphertext.level + 1]))
        edge = digits * self._edge[: ciphertext.values.shape[-1]] / 2
        return self._disturbed(ciphertext, np.sqrt(ring * (_ROUNDING * digits) ** 2 + edge**2 + self._rounding**2))

    def _disturbed(self, ciphertext: Simulated, error: float | Vector) -> Simulated:
        if not self._noise:
            return ciphertext
        size = error * self._spread / ciphertext.scale
        # most of a plan's time; single precision is quicker, and enough for noise
        noise = self._random.standard_normal(ciphertext.values.shape, dtype=np.float32)
        return replace(ciphertext, values=ciphertext.values + size * noise)

    def _require_scale(self, level: int, scale: float) -> None:
        """As SEAL does, which calls it "scale out of bounds"."""
        modulus_bits = sum(self.parameters.prime_bits[: level + 1])
        if math.log2(scale) + 1 >= modulus_bits:
            raise PlanError(f"a scale of 2^{math.log2(scale):.1f} does not fit {modulus_bits} bits of modulus")

    def _checked(self, ciphertext: Simulated) -> Simulated:
        """A number times its scale must stay below half the modulus, or it comes out as another one."""
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
    """How large the polynomial 1 + X + X^2 + ... is in each slot."""
    powers = np.array([pow(3, slot, 2 * ring) for slot in range(ring // 2)])
    return 2 / np.abs(1 - np.exp(1j * np.pi * powers / ring))
