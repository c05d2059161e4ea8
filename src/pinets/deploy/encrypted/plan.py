"""What client and server agree on before anything is encrypted, and what to expect of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pinets.deploy.encrypted.errors import PlanError
from pinets.deploy.encrypted.latency import InputLayout
from pinets.deploy.encrypted.parameters import Parameters
from pinets.deploy.encrypted.typed import build

__all__ = ["Packing", "Plan", "in_units"]

Packing = Literal["latency", "throughput"]
FORMAT = 2  # of the plan's file

# Measured or simulated, so different each time one plans; nothing that is computed depends on them.
_EXPECTATIONS = (
    *("headroom_bits", "largest_output", "deviation", "seconds"),
    *("key_bytes", "weight_bytes", "ciphertext_bytes"),
)


@dataclass(frozen=True)
class Plan:
    """All that client and server must agree on, and what to expect. It holds no weights and no secrets.

    Attributes:
        packing: ``"latency"``, one input per ciphertext, or ``"throughput"``, one feature of many inputs in each.
        parameters: Of the scheme.
        layout: How the client repeats an input in a ciphertext; for low latency.
        input_shape: Of one input, without the batch.
        outputs: How many numbers come out.
        degree: In the input.
        depth: Multiplications that follow each other.
        low: The least number in an input.
        high: The largest.
        output_bound: The largest output that fits.
        output_scale: The scale of the result.
        rotations: The steps that there are keys for.
        headroom_bits: By how much numbers may grow before they no longer fit.
        largest_output: Of the plain network, on the inputs that the plan was made with.
        deviation: What the largest difference of an output from the plain network's stays below.
        seconds: For one ciphertext or, for throughput, one set of them, on the machine that planned; None if not known.
        key_bytes: Memory of the evaluation keys.
        weight_bytes: Memory of the encoded weights, if they are kept.
        ciphertext_bytes: Memory of the ciphertexts that are needed at once.
    """

    packing: Packing
    parameters: Parameters
    layout: InputLayout | None
    input_shape: tuple[int, ...]
    outputs: int
    degree: int
    depth: int
    low: float
    high: float
    output_bound: float
    output_scale: float
    rotations: tuple[int, ...]
    headroom_bits: float
    largest_output: float
    deviation: float
    seconds: float | None
    key_bytes: int
    weight_bytes: int
    ciphertext_bytes: int

    @property
    def batch(self) -> int:
        """How many inputs one ciphertext, or one set of them, stands for."""
        return self.parameters.slots if self.packing == "throughput" else 1

    @property
    def needed_bytes(self) -> int:
        """The least memory that will do: for the keys, and either for the file they are read from or ciphertexts."""
        return self.key_bytes + max(self.key_bytes, self.ciphertext_bytes)

    @property
    def relative_deviation(self) -> float:
        """The largest deviation relative to the largest output: what a wanted precision is compared with."""
        return self.deviation / self.largest_output

    @property
    def identity(self) -> str:
        """A checksum of what is agreed on, by which files that belong to another plan are told."""
        agreed = {name: value for name, value in self.to_json().items() if name not in _EXPECTATIONS}
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        if not isinstance(content, Mapping):
            raise PlanError(f"a plan is a JSON object, got {type(content).__name__}")
        values = dict(content)
        if values.pop("format", None) != FORMAT:
            raise PlanError(f"the plan is of another format, {content.get('format')!r} instead of {FORMAT}")
        plan: Plan = build(cls, values, "the plan")
        if (plan.layout is None) != (plan.packing == "throughput"):
            raise PlanError(f"a layout is for low latency, and needed there; got {plan.layout} for {plan.packing}")
        return plan

    def __str__(self) -> str:
        scheme = self.parameters
        security = "NOT SECURE (test parameters)" if scheme.insecure else "128-bit secure"
        many = f"{self.batch} inputs at a time" if self.batch > 1 else "one input at a time"
        rows = [
            ("network", f"{math.prod(self.input_shape)} numbers to {self.outputs}, degree {self.degree}"),
            ("packing", f"{self.packing}, {many}"),
            ("depth", f"{self.depth} multiplications in a row"),
            ("ring", f"{scheme.ring} ({scheme.slots} numbers in a ciphertext)"),
            ("modulus", f"{'+'.join(map(str, scheme.prime_bits))} = {scheme.modulus_bits} bits, {security}"),
            ("rotation keys", f"{len(self.rotations)}"),
            ("inputs", f"from {self.low:.4g} to {self.high:.4g}; room for outputs up to {self.output_bound:.4g}"),
            ("precision", f"largest deviation of an output {self.deviation:.1e}, "
                          f"{self.relative_deviation:.1e} of the largest output"),
            ("time", self._time()),
            ("memory", f"keys {in_units(self.key_bytes)}, weights {in_units(self.weight_bytes)}, "
                       f"ciphertexts {in_units(self.ciphertext_bytes)}"),
        ]  # fmt: skip
        return "\n".join(f"{name:14} {text}" for name, text in rows)

    def _time(self) -> str:
        if self.seconds is None:
            return "not known: needs tenseal"
        each = f", {self.seconds / self.batch * 1e3:.3g} ms each" if self.batch > 1 else ""
        return f"about {self.seconds:.2g} s on one core of this machine{each}"


def in_units(size: float) -> str:
    """A number of bytes, to be read.

    >>> in_units(3_900_000)
    '3.9 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
