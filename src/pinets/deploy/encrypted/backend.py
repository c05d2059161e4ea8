"""The small interface that a library of homomorphic encryption has to fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pinets.deploy.encrypted.parameters import Parameters

__all__ = ["Ciphertext", "Decryptor", "Evaluator", "Plaintext", "Vector"]

Vector: TypeAlias = NDArray[np.float64]
Ciphertext: TypeAlias = Any  # of the library
Plaintext: TypeAlias = Any


class Evaluator(Protocol):
    """What the server can do with ciphertexts; it needs no secret.

    A ciphertext has a level (how many multiplications are left) and a scale (what counts as one). An operation may
    overwrite its first argument where it says so; nothing else is changed.
    """

    @property
    def parameters(self) -> Parameters: ...

    def prime(self, level: int) -> float:
        """By what the scale is divided when a ciphertext leaves this level."""

    def level(self, ciphertext: Ciphertext) -> int: ...

    def scale(self, ciphertext: Ciphertext) -> float: ...

    def encode(self, values: Vector | float, level: int, scale: float) -> Plaintext:
        """A number for every slot, or one for all of them."""

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The sum; both have the same level and scale. ``left`` may be overwritten."""

    def add_plain(self, left: Ciphertext, right: Plaintext) -> Ciphertext:
        """The sum; both have the same level and scale. ``left`` may be overwritten."""

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The product of two ciphertexts of the same level, relinearised and rescaled: one level down."""

    def multiply_plain(self, left: Ciphertext, right: Plaintext) -> Ciphertext:
        """The product, not rescaled."""

    def weighted_sum(self, ciphertexts: Sequence[Ciphertext], weights: Vector, scale: float) -> Ciphertext:
        """A linear combination, the weights at the given scale, not rescaled.

        SEAL refuses a product with zero, which would hide nothing. Where all weights are, the smallest there is stands
        in for one of them.
        """

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        """Slot t of the result is slot t + step of the argument, around the end."""

    def rescale(self, ciphertext: Ciphertext) -> Ciphertext:
        """One level down; the scale is divided by the level's prime. The argument may be overwritten."""

    def lower(self, ciphertext: Ciphertext, level: int) -> Ciphertext:
        """The same numbers and scale at a lower level, or the same one."""


class Decryptor(Protocol):
    """What the client can do, having the secret key."""

    def encrypt(self, values: Vector, scale: float) -> bytes: ...

    def decrypt(self, ciphertext: bytes) -> Vector: ...
