"""A convolutional network on encrypted colour images, with untrained weights: seconds, memory and bytes of one image.

Nothing is planned: the modulus is the largest that is 128-bit secure. The seconds are CPU time of one core. A server
encodes the weights for each image, or with `--keep` for the first alone ("weights GB" is what it keeps).

Example:
  python -m benchmarks colour --widths 32,64,128,256
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.rows import Row
from pinets.cli.arguments import positive
from pinets.encrypted import Circuit, Client, Parameters, Plan, PlanError, Server, compile_network, make_keys
from pinets.encrypted.grid import choose_grid, pack_grid
from pinets.encrypted.grid_program import GridProgram
from pinets.encrypted.plan import SECURE_BITS
from pinets.encrypted.planner import check_weights
from pinets.encrypted.simulate import SimulatedEvaluator
from pinets.models import create_model

__all__ = ["add_arguments", "measure", "rows"]

_BASE, _SPECIAL = 52, 60  # bits of the first and the last prime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    parser.add_argument("--widths", type=_widths, default=(32, 64, 128, 128), help="(default: 32,64,128,128)")
    parser.add_argument("--size", type=positive, default=32, help="height and width of the image (default: 32)")
    parser.add_argument("--ring", type=int, default=16384, choices=sorted(SECURE_BITS), help="(default: 16384)")
    parser.add_argument("--keep", action="store_true", help="keep encoded weights, and evaluate the image twice")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row."""
    yield measure(args.widths, args.size, args.ring, keep=args.keep)


def measure(widths: tuple[int, ...], size: int, ring: int, *, keep: bool) -> Row:
    """Evaluate one random image, and compare with the plain network."""
    torch.manual_seed(0)
    network = create_model("strict_convnet", widths=widths).double().eval().requires_grad_(False)
    image = torch.randn(1, 3, size, size, dtype=torch.float64)
    circuit = compile_network(network, image)
    plan, counted = _unplanned(circuit, image, ring, keep)
    secret, evaluation = (one.to_bytes() for one in make_keys(plan))
    client, server = Client(plan, secret), Server(plan, circuit, workers=1)
    keys = server.load_keys(evaluation)
    request = client.encrypt(image.numpy())
    for _ in range(2 if keep else 1):
        start = time.process_time()
        answer = server.evaluate(request, keys)
        seconds = time.process_time() - start
    outputs, expected = client.decrypt(answer)[0], network(image)[0].numpy()
    figures = {
        "s": seconds,
        "deviation": float(np.abs(outputs - expected).max()),
        "largest output": float(np.abs(expected).max()),
        "same class": float(outputs.argmax() == expected.argmax()),
        "rotations": float(sum(count for (name, _), count in counted.counts.items() if name == "rotate")),
        "plain products": float(sum(count for (name, _), count in counted.counts.items() if name == "multiply_plain")),
        "weights GB": counted.encoded_bytes / 1e9,
        "peak memory GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "keys MB": len(evaluation) / 1e6,
        "request MB": len(request) / 1e6,
        "answer MB": len(answer) / 1e6,
    }
    return Row(f"widths {widths}, ring {ring}, {len(plan.rotations)} rotation keys", figures)


def _unplanned(circuit: Circuit, image: torch.Tensor, ring: int, keep: bool) -> tuple[Plan, SimulatedEvaluator]:
    """A plan without a search for parameters, and an evaluator that has counted the operations."""
    scale = min(40, (SECURE_BITS[ring] - _BASE - _SPECIAL) // circuit.depth)
    if scale < 24:
        raise PlanError(f"a ring of {ring} has no room for {circuit.depth} multiplications in a row")
    parameters = Parameters(ring, (_BASE, *(scale,) * circuit.depth, _SPECIAL), scale)
    slots = parameters.slots
    weights = check_weights(circuit.output.rows)
    layout = choose_grid(circuit, slots)
    counted = SimulatedEvaluator(parameters, noise=False)
    packed = [counted.encrypt(one, parameters.scale) for one in pack_grid(image.flatten().numpy(), layout, slots)]
    program = GridProgram(circuit.with_check(weights), layout, slots, keep=False)
    program.run(counted, packed, parameters.scale)
    plan = Plan(
        packing="grid",
        parameters=parameters,
        layout=None,
        grid=layout,
        input_shape=tuple(image.shape[1:]),
        outputs=circuit.output.rows,
        degree=circuit.degree,
        depth=circuit.depth,
        low=float(image.min()),
        high=float(image.max()),
        output_bound=2.0 ** (_BASE - scale - 1),
        output_scale=parameters.scale,
        check_weights=weights,
        rotations=tuple(sorted(counted.rotations)),
        proven=False,
        covers="inputs",
        headroom_bits=0.0,
        largest_output=1.0,
        deviation=1.0,
        proven_deviation=None,
        check_tolerance=1.0,
        seconds=None,
        key_bytes=(1 + len(counted.rotations)) * parameters.key_bytes,
        weight_bytes=0 if keep else 2**59,  # decides whether the server keeps them
        ciphertext_bytes=program.alive * parameters.ciphertext_bytes(),
    )
    return plan, counted


def _widths(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))
