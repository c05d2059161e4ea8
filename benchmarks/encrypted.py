"""Encrypted inference on trained networks: deviation, accuracy and time, against TenSEAL's own matrix product.

Every RUN is the folder of a trained classifier, such as `pinets train mnist_ccp4` makes. TenSEAL's `CKKSVector.mm` is
what its users write: one matrix product per factor, then the products, then the head. It runs with the same primes and
the same security, in the same process, on the same images. "s" is the time of one image on one core, "amortised s" the
time per image with all processes at work.

Example:
  python -m benchmarks encrypted runs/mnist_ccp4-small/seed-0 runs/fashion_ccp4-small/seed-0
  python -m benchmarks encrypted runs/mnist_ccp4-small/seed-0 --packing throughput --images 4096
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from benchmarks.rows import Row
from pinets import resolve
from pinets._extras import require
from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError
from pinets.encrypted import Circuit, Parameters, Plan, Trial, plan_network, run_trial, split_source
from pinets.encrypted.stencil import matrix_of
from pinets.encrypted.workers import worker_count

__all__ = ["Case", "add_arguments", "measure", "rows", "run_tenseal"]


@dataclass(frozen=True, eq=False)
class Case:
    """A trained network with images to plan with and images to test with."""

    name: str
    network: nn.Module
    calibration: Tensor
    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Peer:
    """TenSEAL's time for each image, and its largest deviation from the plain network."""

    seconds: float
    deviation: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders")
    parser.add_argument("--images", type=positive, default=100, help="test images (default: 100)")
    parser.add_argument("--peer-images", type=int, default=2, help="for TenSEAL; 0 to leave it out (default: 2)")
    parser.add_argument(
        "--packing", choices=["latency", "throughput", "grid"], default="latency", help="(default: latency)"
    )
    parser.add_argument("--room", choices=["range", "inputs"], default="range", help="as of pinets encrypt plan")
    parser.add_argument("--ring", type=positive, help="this ring size, instead of the smallest that works")
    parser.add_argument("--workers", type=positive, help="processes (default: one for each core)")
    parser.add_argument("--data", metavar="DIR", help="where datasets are (default: $PINETS_DATA)")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each run."""
    options = {"packing": args.packing, "room": args.room} | ({"rings": (args.ring,)} if args.ring else {})
    for path in args.runs:
        case = read_case(Path(path), args.images, args.data)
        yield measure(case, workers=worker_count(args.workers), peer_images=args.peer_images, options=options)


def read_case(path: Path, images: int, data_dir: str | None) -> Case:
    """A trained classifier with its images."""
    if not path.is_dir():
        raise UsageError(f"there is no run folder {path}")
    found = resolve(path, data_dir=data_dir)
    source = split_source(found.network, found.data.read)
    inputs, labels = source.held_out(images)
    assert labels is not None
    return Case(path.parent.name, source.network, source.calibration, inputs, labels)


def measure(case: Case, *, workers: int, peer_images: int, options: Mapping[str, Any]) -> Row:
    """Plan one case and try it, on one core, on all, and with TenSEAL, which takes networks of one product only.

    Args:
        case: The network and its images.
        workers: Processes for the amortised time.
        peer_images: How many images TenSEAL evaluates; 0 to leave it out.
        options: Of the planner.
    """
    plan, circuit = plan_network(case.network, case.calibration, **options)
    single = _trial(case, plan, circuit, workers=1)
    amortised = single if workers == 1 else _trial(case, plan, circuit, workers=workers)
    assert single.accuracy is not None, "a case has labels"
    assert single.plain_accuracy is not None
    figures = {
        "s": single.evaluate_seconds,
        "amortised s": amortised.evaluate_seconds,
        "accuracy": single.accuracy,
        "plain accuracy": single.plain_accuracy,
        "deviation": single.deviation,
        "largest output": single.largest,
    }
    if peer_images and len(circuit.products) == 1:
        peer = run_tenseal(circuit, plan.parameters, case.inputs[:peer_images])
        figures |= {
            "TenSEAL s": peer.seconds,
            "TenSEAL/ours": peer.seconds / single.evaluate_seconds,
            "TenSEAL deviation": peer.deviation,
        }
    details = {"plan": plan.to_json(), "single": single.to_json(), "workers": workers}
    return Row(f"{case.name}, ring {plan.parameters.ring}, {single.inputs} images", figures, details=details)


def _trial(case: Case, plan: Plan, circuit: Circuit, workers: int) -> Trial:
    with tempfile.TemporaryDirectory(prefix="pinets-") as folder:
        return run_trial(plan, circuit, case.network, case.inputs, folder, labels=case.labels, workers=workers)


def run_tenseal(circuit: Circuit, parameters: Parameters, inputs: Tensor) -> Peer:
    """Evaluate a network of one product as TenSEAL's users do, with ``mm`` for every matrix."""
    tenseal = require("tenseal", extra="deploy")
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, parameters.ring, coeff_mod_bit_sizes=list(parameters.prime_bits), n_threads=1
    )
    context.global_scale = parameters.scale
    context.generate_galois_keys()
    (product,) = circuit.products
    maps = [(matrix_of(factor.terms[0]).T.tolist(), factor.constant) for factor in product.factors]
    head = matrix_of(circuit.output.terms[1]).T.tolist()
    flat = inputs.flatten(1).double()
    outputs, seconds = [], 0.0
    for one in flat.tolist():
        entry = tenseal.ckks_vector(context, one)
        start = time.perf_counter()
        factors = [
            entry.mm(matrix) + constant.tolist() if constant.any() else entry.mm(matrix) for matrix, constant in maps
        ]
        while len(factors) > 1:
            pairs = zip(factors[::2], factors[1::2], strict=False)
            factors = [left * right for left, right in pairs] + factors[len(factors) // 2 * 2 :]
        out = factors[0].mm(head) + circuit.output.constant.tolist()
        seconds += time.perf_counter() - start
        outputs.append(out.decrypt())
    deviation = np.abs(np.array(outputs) - circuit(flat).numpy()).max()
    return Peer(seconds / len(flat), float(deviation))
