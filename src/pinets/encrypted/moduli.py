"""Modulus chains: which are secure and precise, and how much room they leave."""

from __future__ import annotations

import math

from pinets.encrypted.plan import LARGEST_PRIME, RINGS, SECURE_BITS, Parameters
from pinets.encrypted.reach import Reach

__all__ = ["candidates", "headroom", "output_scale", "too_deep"]

_LEAST_SCALE = 24  # bits; a smaller scale drowns in noise
_CONSTANT = 2.01  # SEAL refuses to encode constants from a quarter of the modulus on; results may reach half of it
_MOST_SCALE = 45  # SEAL encodes in double precision, whose errors are larger than those of a larger scale


def output_scale(reach: Reach, parameters: Parameters, constant: float) -> float:
    """The largest scale at which the output and its largest constant fit the base prime."""
    largest = max(reach.output, _CONSTANT * constant, 2.0**-20)
    bits = parameters.prime_bits[0] - 1 - math.ceil(math.log2(largest))
    return 2.0 ** min(bits, parameters.prime_bits[0] - 2, parameters.scale_bits + 8)


def candidates(ring: int, depth: int, insecure: bool) -> list[Parameters]:
    """The most precise secure modulus chains: larger base and special primes leave smaller ones for the levels."""
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


def headroom(reach: Reach, parameters: Parameters, scale_of_output: float, area: int) -> float:
    """The bits between the largest number of a circuit and half the modulus at its level; the least of all levels.

    ``area`` numbers are summed before they are divided by the area of a pooling's cell.
    """
    primes = parameters.prime_bits
    sizes = [(reach.output * scale_of_output, primes[0])]
    for spent, size in reach.inner.items():
        sizes.append((area * size * parameters.scale, sum(primes[: parameters.levels - spent + 1])))
    return min(modulus - 1 - math.log2(max(size, 1e-300)) for size, modulus in sizes)


def too_deep(depth: int, ring: int) -> str:
    """Why a depth does not fit a ring, and what would."""
    room = max((levels for levels in range(1, 64) if candidates(ring, levels, False)), default=0)
    larger = next((other for other in RINGS if other > ring and candidates(other, depth, False)), None)
    nearest = f"a ring of {larger} has room" if larger else f"the nearest network that fits has depth {room}"
    return (
        f"the network needs {depth} multiplications in a row, and at 128-bit security a ring of {ring} has room for "
        f"{room}: {nearest}. A CCP of order N needs 2 + ceil(log2 N), an NCP 2 N - 1"
    )
