"""Encrypted inference on trained networks: deviation, accuracy and time, against TenSEAL's own matrix product.

TenSEAL's ``CKKSVector.mm`` is what its users write: one matrix product per factor, then the products, then the head. It
runs with the same primes and the same security, in the same process, on the same images.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from pinets._extras import require
from pinets.bench.rows import Measured, Results, collect
from pinets.bench.timing import machine
from pinets.deploy.encrypted import Circuit, Parameters, Plan, Trial, plan_network, run_trial

__all__ = ["Case", "Row", "bench_encrypted", "run_tenseal"]


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


@dataclass(frozen=True)
class Row(Measured):
    """What a case came to: one image after the other on one core, and the same on all; TenSEAL on one core."""

    name: str
    plan: Plan
    single: Trial
    workers: int
    amortised_seconds: float
    tenseal: Peer | None

    @property
    def ratio(self) -> float | None:
        """How many times less time one image takes than with TenSEAL's own matrix product, both on one core."""
        return None if self.tenseal is None else self.tenseal.seconds / self.single.evaluate_seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "plan": self.plan.to_json(),
            "single": self.single.to_json(),
            "workers": self.workers,
            "amortised_seconds": self.amortised_seconds,
            "tenseal": None if self.tenseal is None else asdict(self.tenseal),
            "ratio": self.ratio,
        }

    def __str__(self) -> str:
        text = (
            f"{self.name}: {self.single.evaluate_seconds:.3f} s an image, {self.amortised_seconds:.3f} s amortised "
            f"over {self.workers} processes, accuracy {self.single.accuracy:.4f} encrypted and "
            f"{self.single.plain_accuracy:.4f} plain, deviation {self.single.deviation:.1e} of "
            f"{self.single.largest:.3g}, ring {self.plan.parameters.ring}, {self.single.inputs} images"
        )
        if self.tenseal is not None:
            text += (
                f"; TenSEAL's mm {self.tenseal.seconds:.2f} s ({self.ratio:.0f} times ours), "
                f"deviation {self.tenseal.deviation:.1e}"
            )
        return text


def bench_encrypted(
    cases: Iterable[Case],
    *,
    workers: int,
    peer_images: int = 2,
    options: dict[str, Any] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Results[Row]:
    """Measure every case.

    Args:
        cases: Networks and images.
        workers: Processes for the amortised time.
        peer_images: How many images TenSEAL evaluates; 0 to leave it out. It takes networks of one product only.
        options: Of the planner.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    rows = (measure(case, workers, peer_images, options or {}) for case in cases)
    return Results("encrypted", collect(rows, on_row), facts)


def measure(case: Case, workers: int, peer_images: int, options: Mapping[str, Any]) -> Row:
    """Plan one case and try it, on one core, on all, and with TenSEAL."""
    plan, circuit = plan_network(case.network, case.calibration, **options)
    single = _trial(case, plan, circuit, workers=1)
    amortised = single if workers == 1 else _trial(case, plan, circuit, workers=workers)
    peer = None
    if peer_images and len(circuit.products) == 1:
        peer = run_tenseal(circuit, plan.parameters, case.inputs[:peer_images])
    return Row(case.name, plan, single, workers, amortised.evaluate_seconds, peer)


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
    maps = [(factor.terms[0].T.tolist(), factor.constant) for factor in product.factors]
    head = circuit.output.terms[1].T.tolist()
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
