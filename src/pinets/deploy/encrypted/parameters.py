"""The numbers that fix a CKKS scheme, and which of them are secure."""

from __future__ import annotations

from dataclasses import dataclass

from pinets.deploy.encrypted.errors import PlanError

__all__ = ["LARGEST_PRIME", "RINGS", "SECURE_BITS", "Parameters"]

# The largest modulus for 128-bit security with a ternary secret, by ring size: the tables of homomorphicencryption.org,
# which SEAL enforces as well.
SECURE_BITS = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
RINGS = tuple(SECURE_BITS)
LARGEST_PRIME = 60  # bits; of SEAL


@dataclass(frozen=True)
class Parameters:
    """A CKKS scheme.

    Attributes:
        ring: The degree of its polynomials; half as many numbers are in a ciphertext.
        prime_bits: Of the modulus chain: the base prime, one for each level, and the special prime for key switching.
        scale_bits: Numbers are kept as multiples of 2 to minus this.
        insecure: Accept a modulus too large for 128-bit security. For tests with small rings only.
    """

    ring: int
    prime_bits: tuple[int, ...]
    scale_bits: int
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.ring < 1024 or self.ring & (self.ring - 1):
            raise PlanError(f"the ring size must be a power of two from 1024 on, got {self.ring}")
        if len(self.prime_bits) < 3:
            raise PlanError(f"a modulus chain has a base, a special and another prime at least, got {self.prime_bits}")
        if max(self.prime_bits) > LARGEST_PRIME:
            raise PlanError(f"primes have at most {LARGEST_PRIME} bits, got {max(self.prime_bits)}")
        if not self.insecure and self.modulus_bits > SECURE_BITS.get(self.ring, 0):
            raise PlanError(
                f"a modulus of {self.modulus_bits} bits is not 128-bit secure in a ring of {self.ring}: "
                f"at most {SECURE_BITS.get(self.ring, 0)} bits are"
            )

    @property
    def slots(self) -> int:
        """How many numbers one ciphertext holds."""
        return self.ring // 2

    @property
    def levels(self) -> int:
        """How many multiplications can follow each other."""
        return len(self.prime_bits) - 2

    @property
    def modulus_bits(self) -> int:
        return sum(self.prime_bits)

    @property
    def scale(self) -> float:
        return 2.0**self.scale_bits

    def ciphertext_bytes(self, level: int | None = None) -> int:
        """The memory of a ciphertext at a level; of a fresh one if left out."""
        return 2 * self.plaintext_bytes(level)

    def plaintext_bytes(self, level: int | None = None) -> int:
        primes = 1 + (self.levels if level is None else level)
        return primes * self.ring * 8

    @property
    def key_bytes(self) -> int:
        """The memory of one key for a rotation, or for relinearisation."""
        return (self.levels + 1) * 2 * (self.levels + 2) * self.ring * 8
