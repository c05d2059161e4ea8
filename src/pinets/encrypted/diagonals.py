r"""A linear map between two layouts as rotations and diagonals, with baby and giant steps.

A layout says which entry of a value each slot holds. If slot :math:`t` of the result needs the entry in slot :math:`s`,
it needs a rotation by :math:`s - t`. All coefficients with the same rotation form one diagonal,

.. math:: y_o = \sum_{j, r} d_{o, j, r} * \mathrm{rot}_r(x_j),

and the rotations :math:`r = g M + b` are shared: by :math:`b` before the products, by :math:`M` between partial sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pinets.encrypted.backend import Ciphertext, Evaluator, Plaintext, Vector

__all__ = ["Coefficients", "Diagonals", "Integers", "Layout", "Rotation", "baby_steps", "make_diagonals"]

Integers: TypeAlias = NDArray[np.int64]
_MOST_STARTS = 7  # the least rotation is one of 0, -1, -2, -4, ..., times 1 or 9


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the entries of a value are; the period repeats through the ciphertext."""

    places: Integers  # the entry in each slot, (ciphertexts, period); -1 where a slot holds nothing of use

    @property
    def period(self) -> int:
        return int(self.places.shape[1])

    def where(self, entries: int) -> tuple[Integers, Integers]:
        """The ciphertext and the slot of each entry."""
        ciphertext, slot = np.nonzero(self.places >= 0)
        found = self.places[ciphertext, slot]
        ciphertexts, slots = np.full(entries, -1), np.full(entries, -1)
        ciphertexts[found], slots[found] = ciphertext, slot
        if (slots < 0).any():
            raise ValueError(f"{int((slots < 0).sum())} of {entries} entries are in no slot")
        return ciphertexts, slots


class Coefficients(NamedTuple):
    """Coefficients of a linear map whose results belong to one ciphertext: all arrays have the same shape."""

    target: Integers  # the slot of the result
    ciphertext: Integers  # of the operand
    slot: Integers  # of the operand
    weight: Vector


Source: TypeAlias = Callable[[int], Iterable[Coefficients]]  # of one ciphertext of the result


class Rotation(NamedTuple):
    """One baby step: rotate the ciphertext that is already rotated by ``start`` by a further ``step``."""

    start: int
    step: int


@dataclass(eq=False)
class Diagonals:
    """A linear map as diagonals: by ciphertext of the result and giant step, then by operand and baby step."""

    giant: int  # the step between partial sums, M
    sums: list[list[dict[tuple[int, int], Vector]]]
    folds: tuple[int, ...]  # the rotations whose sums complete the result, in order
    encoded: dict[tuple[int, int, int, int], Plaintext] = field(default_factory=dict)  # those that are kept

    @property
    def babies(self) -> dict[int, set[int]]:
        """The baby steps of each ciphertext of the operand."""
        found: dict[int, set[int]] = {}
        for one in self.sums:
            for part in one:
                for ciphertext, step in part:
                    found.setdefault(ciphertext, set()).add(step)
        return found

    def apply(
        self,
        evaluator: Evaluator,
        rotated: Callable[[int, int], Ciphertext],
        level: int,
        scale: float,
        *,
        result: int = 0,
        keep: bool,
    ) -> Ciphertext:
        """One ciphertext of the result, not rescaled.

        Args:
            evaluator: Computes with ciphertexts.
            rotated: Gives a ciphertext of the operand, rotated by a baby step.
            level: The level of these ciphertexts.
            scale: The scale of the diagonals.
            result: The number of the ciphertext.
            keep: Whether to keep encoded diagonals for the next operand.
        """
        total: Ciphertext | None = None
        for number, part in reversed([*enumerate(self.sums[result])]):
            if total is not None:
                total = evaluator.rotate(total, self.giant)
            for (operand, step), diagonal in part.items():
                key = (result, number, operand, step)
                plaintext = self.encoded.get(key)
                if plaintext is None:
                    plaintext = _encode(evaluator, diagonal, level, scale)
                if keep:
                    self.encoded[key] = plaintext
                term = evaluator.multiply_plain(rotated(operand, step), plaintext)
                total = term if total is None else evaluator.add(total, term)
        for step in self.folds:
            total = evaluator.add(evaluator.rotate(total, step), total)
        return total


def _encode(evaluator: Evaluator, diagonal: Vector, level: int, scale: float) -> Plaintext:
    if not np.rint(diagonal * scale).any():
        diagonal = np.full(len(diagonal), 1 / scale)  # SEAL refuses products with 0, which would be readable
    return evaluator.encode(np.tile(diagonal, evaluator.parameters.slots // len(diagonal)), level, scale)


def make_diagonals(source: Source, results: int, period: int, into: int, operands: int) -> Diagonals:
    """Sort the coefficients of a linear map into diagonals, with the baby and giant steps that rotate least.

    Args:
        source: Gives the coefficients for one ciphertext of the result, in pieces.
        results: The number of ciphertexts of the result.
        period: The period of the result.
        into: The period of the operand.
        operands: The number of ciphertexts of the operand.
    """
    span, least = max(period, into), min(period, into)
    needed = np.zeros((results, operands, into), dtype=bool)
    for result in range(results):
        for piece in source(result):
            needed[result, piece.ciphertext, (piece.slot - piece.target) % into] = True
    start, giant = _least_rotations(needed, least)
    count = -(-least // giant)
    sums: list[list[dict[tuple[int, int], Vector]]] = [[{} for _ in range(count)] for _ in range(results)]
    for result in range(results):
        for piece in source(result):
            _scatter(sums[result], piece, start, giant, least, into, span)
        for number, part in enumerate(sums[result]):
            for key in part:
                part[key] = np.roll(part[key], number * giant)  # the giant rotations follow the product
        while len(sums[result]) > 1 and not sums[result][-1]:
            sums[result].pop()
        if not any(sums[result]):
            sums[result][0][0, 0] = np.zeros(span)
    folds = tuple(period << power for power in range((into // period).bit_length() - 1))
    return Diagonals(giant, sums, folds)


def _scatter(
    sums: list[dict[tuple[int, int], Vector]],
    piece: Coefficients,
    start: int,
    giant: int,
    least: int,
    into: int,
    span: int,
) -> None:
    """Add coefficients to the diagonals. Where the result repeats, each repetition takes a share of the rotations."""
    rotation = (piece.slot - piece.target + start) % into
    copy, rotation = rotation // least, rotation % least
    target = piece.target + copy * least
    number, baby = rotation // giant, rotation % giant - start
    keys = (number * (2 * span) + baby + span) * 2**16 + piece.ciphertext
    order = np.argsort(keys, axis=None, kind="stable")
    keys, target, weight = keys.ravel()[order], target.ravel()[order], piece.weight.ravel()[order]
    edges = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    for first, last in zip(edges, [*edges[1:], len(keys)], strict=True):
        rest, ciphertext = divmod(int(keys[first]), 2**16)
        number_of, shifted = divmod(rest, 2 * span)
        diagonal = sums[number_of].setdefault((ciphertext, shifted - span), np.zeros(span))
        diagonal[target[first:last]] += weight[first:last]


def _least_rotations(needed: NDArray[np.bool_], least: int) -> tuple[int, int]:
    """The start of the baby steps and the giant step with the fewest rotations in all."""
    results, operands, into = needed.shape
    costs = []
    starts = sorted({factor << power for factor in (1, 9) for power in range(_MOST_STARTS)} | {0})
    for start in starts:
        if start >= least:
            break
        # where the result repeats, all repetitions count
        folded = np.roll(needed, start, axis=2).reshape(results, operands, into // least, least).any(2)
        giant = 1
        while giant <= least:
            steps = folded.reshape(results, operands, least // giant, giant)
            babies = int(steps.any((0, 2)).sum())
            last = [np.flatnonzero(steps[result].any((0, 2)))[-1:] for result in range(results)]
            giants = int(np.concatenate(last).sum())
            costs.append((babies + giants, start, giant))
            giant *= 2
    _, start, giant = min(costs)
    return start, giant


def baby_steps(needed: set[int], keys: set[int], slots: int) -> dict[int, Rotation]:
    """How to reach every baby step from one reached before; new rotations are added to ``keys``, as few as possible.

    >>> keys = {1}
    >>> baby_steps({0, 1, 2, 8, 9, 10}, keys, 16), keys
    ({1: Rotation(start=0, step=1), 2: Rotation(start=1, step=1), 8: Rotation(start=2, step=6), 9: Rotation(start=8, \
step=1), 10: Rotation(start=9, step=1)}, {1, 6})
    """
    made: dict[int, Rotation] = {}
    missing = {step for step in needed if step % slots}
    reached = {0}
    while missing:
        new = dict(_reachable(missing, reached, keys))
        made.update(new)
        reached |= new.keys()
        missing -= new.keys()
        if missing:
            candidates = sorted({target - known for target in missing for known in reached}, key=lambda s: (abs(s), -s))
            keys.add(max(candidates[:64], key=lambda s: len(dict(_reachable(missing, reached, keys | {s})))))
    return made


def _reachable(missing: set[int], reached: set[int], keys: set[int]) -> Iterator[tuple[int, Rotation]]:
    found, waiting = set(reached), sorted(reached)
    while waiting:
        start = waiting.pop(0)
        for step in sorted(keys):
            target = start + step
            if target in missing and target not in found:
                found.add(target)
                waiting.append(target)
                yield target, Rotation(start, step)
