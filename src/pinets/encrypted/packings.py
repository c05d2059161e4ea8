"""The three packings: how inputs lie in ciphertexts, and the program that evaluates a circuit on them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pinets.encrypted.backend import Vector
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.grid import choose_grid, pack_grid
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.latency import LatencyProgram, choose_layout, pack
from pinets.encrypted.plan import GridLayout, InputLayout, Packing
from pinets.encrypted.throughput import ThroughputProgram

__all__ = ["Arrangement", "Program", "choose_arrangement", "make_program", "pack_inputs"]

Arrangement: TypeAlias = InputLayout | GridLayout | None  # latency, grid, throughput
Program: TypeAlias = LatencyProgram | GridProgram | ThroughputProgram


def choose_arrangement(packing: Packing, circuit: Circuit, slots: int) -> Arrangement:
    """The layout of inputs with the fewest operations."""
    if packing == "grid":
        return choose_grid(circuit, slots)
    return choose_layout(circuit, slots) if packing == "latency" else None


def make_program(circuit: Circuit, layout: Arrangement, slots: int, *, keep: bool) -> Program:
    """The program of a circuit for a layout of inputs.

    Args:
        circuit: The circuit to evaluate.
        layout: The layout of the input.
        slots: The number of slots of a ciphertext.
        keep: Whether to keep encoded weights for the next input; they take most of the server's memory.
    """
    if isinstance(layout, GridLayout):
        return GridProgram(circuit, layout, slots, keep=keep)
    if isinstance(layout, InputLayout):
        return LatencyProgram(circuit, layout, slots, keep=keep)
    return ThroughputProgram(circuit)


def pack_inputs(inputs: Vector, layout: Arrangement, slots: int) -> list[list[Vector]]:
    """The numbers in the ciphertexts of each input, or of each set of as many inputs as there are slots.

    >>> pack_inputs(np.array([[1.0, 2.0], [3.0, 4.0]]), None, 8)
    [[array([1., 3.]), array([2., 4.])]]
    """
    if isinstance(layout, GridLayout):
        return [list(pack_grid(one, layout, slots)) for one in inputs]
    if isinstance(layout, InputLayout):
        return [[pack(one, layout, slots)] for one in inputs]
    return [
        [np.ascontiguousarray(column) for column in inputs[at : at + slots].T] for at in range(0, len(inputs), slots)
    ]
