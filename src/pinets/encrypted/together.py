"""Several inputs evaluated in step, so that weights are encoded once for all of them and not kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pinets.encrypted.backend import Ciphertext, Evaluator, Plaintext, Vector
from pinets.encrypted.plan import Parameters

__all__ = ["TogetherEvaluator"]


class TogetherEvaluator:
    """An evaluator whose ciphertexts are lists of ciphertexts of another evaluator, one for each input."""

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
