"""The interface of a CKKS library: SEAL implements it, and so does the simulator that plans are made with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pinets.encrypted.plan import Parameters

__all__ = ["Ciphertext", "Evaluator", "Plaintext", "TogetherEvaluator", "Vector"]

Vector: TypeAlias = NDArray[np.float64]
Ciphertext: TypeAlias = Any  # the library's own types
Plaintext: TypeAlias = Any


class Evaluator(Protocol):
    """The operations on ciphertexts, none of which needs a secret.

    A ciphertext has a level (the number of multiplications left) and a scale (the integer that stands for 1).
    Operations do not change their arguments unless they say so.
    """

    @property
    def parameters(self) -> Parameters: ...

    def prime(self, level: int) -> float:
        """The divisor of the scale when a ciphertext is rescaled from this level."""

    def level(self, ciphertext: Ciphertext) -> int: ...

    def scale(self, ciphertext: Ciphertext) -> float: ...

    def encode(self, values: Vector | float, level: int, scale: float) -> Plaintext:
        """Encode one number for each slot, or the same number for all slots."""

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The sum; both have the same level and scale. ``left`` may be overwritten."""

    def add_plain(self, left: Ciphertext, right: Plaintext) -> Ciphertext:
        """The sum; both have the same level and scale. ``left`` may be overwritten."""

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The product of two ciphertexts of the same level, relinearised and rescaled: one level down."""

    def multiply_plain(self, left: Ciphertext, right: Plaintext) -> Ciphertext:
        """The product, not rescaled."""

    def weighted_sum(self, ciphertexts: Sequence[Ciphertext], weights: Vector, scale: float) -> Ciphertext:
        """A linear combination with weights at the given scale, not rescaled.

        SEAL refuses products with zero, which would be readable. If all weights round to zero, one of them becomes
        the smallest positive weight.
        """

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        """Rotate the slots: slot t of the result is slot t + step of the argument, cyclically."""

    def rescale(self, ciphertext: Ciphertext) -> Ciphertext:
        """Go one level down and divide the scale by the level's prime. The argument may be overwritten."""

    def lower(self, ciphertext: Ciphertext, level: int) -> Ciphertext:
        """The same numbers at the same scale and a lower (or the same) level."""


class TogetherEvaluator:
    """Evaluates several inputs in step, so that weights are encoded once for all of them and not kept in memory.

    Its ciphertexts are lists of ciphertexts of another evaluator, one for each input.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._one = evaluator

    @property
    def parameters(self) -> Parameters:
        return self._one.parameters

    def prime(self, level: int) -> float:
        return self._one.prime(level)

    def level(self, ciphertext: list[Ciphertext]) -> int:
        return self._one.level(ciphertext[0])

    def scale(self, ciphertext: list[Ciphertext]) -> float:
        return self._one.scale(ciphertext[0])

    def encode(self, values: Vector | float, level: int, scale: float) -> Plaintext:
        return self._one.encode(values, level, scale)

    def add(self, left: list[Ciphertext], right: list[Ciphertext]) -> list[Ciphertext]:
        return [self._one.add(*pair) for pair in zip(left, right, strict=True)]

    def add_plain(self, left: list[Ciphertext], right: Plaintext) -> list[Ciphertext]:
        return [self._one.add_plain(each, right) for each in left]

    def multiply(self, left: list[Ciphertext], right: list[Ciphertext]) -> list[Ciphertext]:
        return [self._one.multiply(*pair) for pair in zip(left, right, strict=True)]

    def multiply_plain(self, left: list[Ciphertext], right: Plaintext) -> list[Ciphertext]:
        return [self._one.multiply_plain(each, right) for each in left]

    def weighted_sum(self, ciphertexts: Sequence[list[Ciphertext]], weights: Vector, scale: float) -> list[Ciphertext]:
        return [self._one.weighted_sum(each, weights, scale) for each in zip(*ciphertexts, strict=True)]

    def rotate(self, ciphertext: list[Ciphertext], step: int) -> list[Ciphertext]:
        return [self._one.rotate(each, step) for each in ciphertext]

    def rescale(self, ciphertext: list[Ciphertext]) -> list[Ciphertext]:
        return [self._one.rescale(each) for each in ciphertext]

    def lower(self, ciphertext: list[Ciphertext], level: int) -> list[Ciphertext]:
        return [self._one.lower(each, level) for each in ciphertext]
