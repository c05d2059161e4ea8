"""The plan: the parameters that client and server agree on, and the precision, time and memory to expect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pinets._storage import digest, from_json
from pinets.encrypted.errors import PlanError

__all__ = [
    "CHECKS",
    "LARGEST_PRIME",
    "RINGS",
    "SECURE_BITS",
    "GridLayout",
    "InputLayout",
    "Packing",
    "Parameters",
    "Plan",
    "in_units",
]

# The largest modulus in bits for 128-bit security with a ternary secret, by ring size: the tables of
# homomorphicencryption.org, which SEAL enforces as well.
SECURE_BITS = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
RINGS = tuple(SECURE_BITS)
LARGEST_PRIME = 60  # bits, SEAL's limit
LARGEST_RING = 32768  # SEAL's limit
CHECKS = 2  # number of check values
_MOST_NUMBERS = 2**24  # numbers in an input or an output
_USEFUL = 0.01  # a bound for the deviation above this share of the largest output says little

Packing = Literal["latency", "throughput", "grid"]
FORMAT = 4  # version of the plan's file

# Measured or simulated: these differ from one planning to the next, and nothing is computed from them.
_EXPECTATIONS = (
    "proven",
    "covers",
    "headroom_bits",
    "largest_output",
    "deviation",
    "proven_deviation",
    "check_tolerance",
    "seconds",
    "key_bytes",
    "weight_bytes",
    "ciphertext_bytes",
)


@dataclass(frozen=True)
class Parameters:
    """A CKKS scheme.

    Attributes:
        ring: The degree of the polynomials; a ciphertext holds half as many numbers.
        prime_bits: The modulus chain in bits: base prime, one prime for each level, special prime for key switching.
        scale_bits: Numbers are stored as multiples of 2 to the power of minus this.
        insecure: Accept a modulus too large for 128-bit security, for tests with small rings.
    """

    ring: int
    prime_bits: tuple[int, ...]
    scale_bits: int
    insecure: bool = False

    def __post_init__(self) -> None:
        if not 1024 <= self.ring <= LARGEST_RING or self.ring & (self.ring - 1):
            raise PlanError(f"the ring size must be a power of two from 1024 to {LARGEST_RING}, got {self.ring}")
        if len(self.prime_bits) < 3:
            raise PlanError(f"a modulus chain has at least three primes, got {self.prime_bits}")
        if not 20 <= min(self.prime_bits) <= max(self.prime_bits) <= LARGEST_PRIME or len(self.prime_bits) > 64:
            raise PlanError(f"at most 64 primes have 20 to {LARGEST_PRIME} bits each, got {self.prime_bits}")
        if not 1 <= self.scale_bits <= LARGEST_PRIME:
            raise PlanError(f"the scale has from 1 to {LARGEST_PRIME} bits, got {self.scale_bits}")
        if not self.insecure and self.modulus_bits > SECURE_BITS.get(self.ring, 0):
            raise PlanError(
                f"a modulus of {self.modulus_bits} bits is not 128-bit secure in a ring of {self.ring}: "
                f"at most {SECURE_BITS.get(self.ring, 0)} bits are"
            )

    @property
    def slots(self) -> int:
        """The number of slots of a ciphertext."""
        return self.ring // 2

    @property
    def levels(self) -> int:
        """The number of multiplications that can follow each other."""
        return len(self.prime_bits) - 2

    @property
    def modulus_bits(self) -> int:
        return sum(self.prime_bits)

    @property
    def scale(self) -> float:
        return 2.0**self.scale_bits

    def ciphertext_bytes(self, level: int | None = None) -> int:
        """The memory of a ciphertext at a level; by default the highest."""
        return 2 * self.plaintext_bytes(level)

    def plaintext_bytes(self, level: int | None = None) -> int:
        primes = 1 + (self.levels if level is None else level)
        return primes * self.ring * 8

    @property
    def key_bytes(self) -> int:
        """The memory of one key for a rotation, or for relinearisation."""
        return (self.levels + 1) * 2 * (self.levels + 2) * self.ring * 8


@dataclass(frozen=True)
class InputLayout:
    """How the client repeats an input in a ciphertext: ``copies`` times, ``period`` slots apart; ``shift`` is 2^a."""

    period: int
    copies: int
    shift: int


@dataclass(frozen=True)
class GridLayout:
    """How the client arranges the windows of an image; see :mod:`pinets.encrypted.grid`.

    Ciphertext (p, q) of ``phases`` x ``phases`` holds at slot (c, i, j, y, x) the pixel of channel c at row
    ``stride`` (``phases`` y + p) + i - ``margin``, likewise the column; zero outside the image.
    """

    image: tuple[int, int, int]  # channels, height and width
    phases: int  # the square root of the number of ciphertexts
    stride: int  # the distance of windows in neighbouring ciphertexts
    window: int  # the side of a window
    margin: int  # how far the first window begins outside the image
    rows: int  # windows from top to bottom, a power of two
    columns: int  # windows from left to right, a power of two

    @property
    def features(self) -> int:
        """The pixels of a window, rounded up to a power of two."""
        return 1 << (self.image[0] * self.window**2 - 1).bit_length()

    @property
    def period(self) -> int:
        """The slots that an image takes in each ciphertext; it is repeated."""
        return self.features * self.rows * self.columns


@dataclass(frozen=True)
class Plan:
    """Everything that client and server must agree on, and what to expect. It holds no weights and no secrets.

    Attributes:
        packing: ``"latency"``: one input per ciphertext. ``"throughput"``: one feature of many inputs per ciphertext.
            ``"grid"``: one image per handful of ciphertexts, for convolutions.
        parameters: The CKKS scheme.
        layout: How the client repeats an input in a ciphertext; for the latency packing alone.
        grid: How the client arranges an image; for the grid packing alone.
        input_shape: The shape of one input, without the batch axis.
        outputs: The number of outputs.
        degree: The degree in the input.
        depth: The number of multiplications that follow each other.
        low: The least number in an input.
        high: The largest number in an input.
        output_bound: The largest output that fits.
        output_scale: The scale of the result.
        check_weights: The weights of the check values. Each check value is a weighted sum of the outputs that the
            server computes as a further output; outputs that overflowed do not match it.
        rotations: The rotation steps, each of which has a key.
        proven: Whether all numbers fit for every input from ``low`` to ``high``. If not, a search with a margin found
            no input whose numbers do not fit.
        covers: Whether numbers must fit for every input in the range, or for the calibration inputs alone.
        headroom_bits: The bits by which the largest numbers over the range may grow before they no longer fit.
        largest_output: The largest output of the plain network on the calibration inputs.
        deviation: The largest difference of an output from the plain network's, estimated from samples.
        proven_deviation: A bound for the same that holds for every input from ``low`` to ``high``; None if it was not
            asked for.
        check_tolerance: The largest difference of a check value that noise explains.
        seconds: The time for one ciphertext (throughput: one set of them) where the plan was made; None if not known.
        key_bytes: The memory of the evaluation keys.
        weight_bytes: The memory of the encoded weights.
        ciphertext_bytes: The memory of the ciphertexts that exist at once.
    """

    packing: Packing
    parameters: Parameters
    layout: InputLayout | None
    grid: GridLayout | None
    input_shape: tuple[int, ...]
    outputs: int
    degree: int
    depth: int
    low: float
    high: float
    output_bound: float
    output_scale: float
    check_weights: tuple[tuple[float, ...], ...]
    rotations: tuple[int, ...]
    proven: bool
    covers: Literal["range", "inputs"]
    headroom_bits: float
    largest_output: float
    deviation: float
    proven_deviation: float | None
    check_tolerance: float
    seconds: float | None
    key_bytes: int
    weight_bytes: int
    ciphertext_bytes: int

    @property
    def arrangement(self) -> InputLayout | GridLayout | None:
        """The layout of inputs, whichever the packing has."""
        return self.layout or self.grid

    @property
    def batch(self) -> int:
        """The number of inputs in one ciphertext, or in one set of ciphertexts."""
        return self.parameters.slots if self.packing == "throughput" else 1

    @property
    def parts(self) -> int:
        """The number of ciphertexts of a batch of inputs."""
        if self.packing == "throughput":
            return math.prod(self.input_shape)
        return 1 if self.grid is None else self.grid.phases**2

    @property
    def rows(self) -> int:
        """The number of outputs and check values."""
        return self.outputs + len(self.check_weights)

    @property
    def needed_bytes(self) -> int:
        """The memory of the keys, and of either their file or the ciphertexts, whichever is larger."""
        return self.key_bytes + max(self.key_bytes, self.ciphertext_bytes)

    def keeps_weights(self, memory: int) -> bool:
        """Whether the server keeps the encoded weights for the next input, given its memory in bytes."""
        return self.key_bytes + self.ciphertext_bytes + self.weight_bytes < memory // 2

    def fitting(self, memory: int) -> int:
        """The number of inputs that a process evaluates at once, given its memory in bytes: at most 8."""
        return max(1, min(8, (memory // 2 - self.key_bytes) // max(self.ciphertext_bytes, 1)))

    @property
    def relative_deviation(self) -> float:
        """The deviation relative to the largest output; ``precision`` of the planner limits it."""
        return self.deviation / self.largest_output

    @property
    def proof_is_useful(self) -> bool:
        """Whether the proven bound for the deviation is small beside the outputs."""
        return self.proven_deviation is not None and self.proven_deviation <= _USEFUL * self.largest_output

    @property
    def identity(self) -> str:
        """A checksum of what is agreed on; every file carries that of its plan."""
        agreed = {name: value for name, value in self.to_json().items() if name not in _EXPECTATIONS}
        return digest(agreed)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        if not isinstance(content, Mapping):
            raise PlanError(f"a plan is a JSON object, got {type(content).__name__}")
        values = dict(content)
        if values.pop("format", None) != FORMAT:
            raise PlanError(f"the plan is of another format, {content.get('format')!r} instead of {FORMAT}")
        try:
            plan: Plan = from_json(cls, values, "plan")
        except ValueError as error:
            raise PlanError(str(error)) from error
        plan._require_sane()
        return plan

    def _require_sane(self) -> None:
        """Refuse values of the right types that no planner gives, and that would fail or take all memory later."""
        scheme, layout, slots = self.parameters, self.layout, self.parameters.slots
        if (layout is None) != (self.packing != "latency") or (self.grid is None) != (self.packing != "grid"):
            raise PlanError(
                f"the latency packing has a layout and the grid packing a grid, got {layout} and {self.grid} for "
                f"{self.packing}"
            )
        size = math.prod(self.input_shape)
        if not self.input_shape or min(self.input_shape) < 1 or size > _MOST_NUMBERS:
            raise PlanError(f"an input has from 1 to {_MOST_NUMBERS} numbers, got shape {self.input_shape}")
        if not 1 <= self.outputs <= _MOST_NUMBERS:
            raise PlanError(f"there are from 1 to {_MOST_NUMBERS} outputs, got {self.outputs}")
        if layout is not None and not (
            size <= layout.period <= slots and layout.copies >= 1 and layout.copies * layout.period <= slots
        ):
            raise PlanError(f"{layout} does not fit {size} numbers into {slots} slots")
        if self.grid is not None:
            _require_sane_grid(self.grid, self.input_shape, slots)
        if self.packing != "throughput" and self.rows > slots:
            raise PlanError(f"{self.rows} outputs and check values do not fit {slots} slots")
        if len(self.check_weights) != CHECKS or any(len(row) != self.outputs for row in self.check_weights):
            raise PlanError(f"there must be {CHECKS} check values with a weight for each of the {self.outputs} outputs")
        if not 1 <= self.depth <= scheme.levels:
            raise PlanError(f"a depth of {self.depth} does not fit {scheme.levels} levels")
        if self.degree > 2**self.depth:
            raise PlanError(f"a degree of {self.degree} takes more than {self.depth} multiplications in a row")
        if not self.low <= self.high:
            raise PlanError(f"the range must not be empty, got {self.low} to {self.high}")
        if len(self.rotations) > scheme.ring or not all(0 < abs(step) < slots for step in self.rotations):
            raise PlanError(f"rotations are steps below {slots}")
        positive = ("output_bound", "output_scale", "largest_output", "deviation", "check_tolerance", "degree")
        for name in positive:
            if not getattr(self, name) > 0:
                raise PlanError(f"{name} must be positive, got {getattr(self, name)}")
        if self.proven_deviation is not None and not (self.proven and self.proven_deviation > 0):
            raise PlanError(
                f"proven_deviation must be positive, and numbers proven to fit, got {self.proven_deviation}"
            )
        for name in ("key_bytes", "weight_bytes", "ciphertext_bytes"):
            if not 0 <= getattr(self, name) < 2**60:
                raise PlanError(f"{name} must be a number of bytes, got {getattr(self, name)}")

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
            ("inputs", f"from {self.low:.4g} to {self.high:.4g}"),
            ("room", f"for outputs up to {self.output_bound:.4g}, {self._room()}"),
            ("precision", f"largest deviation of an output {self.deviation:.1e}, "
                          f"{self.relative_deviation:.1e} of the largest output, from samples"),
            *([] if self.proven_deviation is None else [("proof", self._proof())]),
            ("time", self._time()),
            ("memory", f"keys {in_units(self.key_bytes)}, weights {in_units(self.weight_bytes)}, "
                       f"ciphertexts {in_units(self.ciphertext_bytes)}"),
        ]  # fmt: skip
        return "\n".join(f"{name:14} {text}" for name, text in rows)

    def _room(self) -> str:
        if self.covers == "inputs":
            return "2^20 times those of the calibration inputs; other inputs in the range may exceed it"
        if self.proven:
            return "proven to fit for every input in the range"
        return "found by gradient ascent over the range with a margin of 2 bits, not proven"

    def _proof(self) -> str:
        assert self.proven_deviation is not None
        text = (
            f"for every input in the range an output deviates by at most {self.proven_deviation:.1e}, but for a chance "
            "of 2^-40 in the noise"
        )
        if not self.proof_is_useful:
            text += "; that is too loose to be of use, and the precision above is sampled"
        return text

    def _time(self) -> str:
        if self.seconds is None:
            return "not known: needs tenseal"
        each = f", {self.seconds / self.batch * 1e3:.3g} ms each" if self.batch > 1 else ""
        return f"about {self.seconds:.2g} s on one core of this machine{each}"


def _require_sane_grid(grid: GridLayout, shape: tuple[int, ...], slots: int) -> None:
    numbers = (*grid.image, grid.phases, grid.stride, grid.window, grid.rows, grid.columns)
    if min(numbers) < 1 or max(numbers) > slots or not 0 <= grid.margin <= grid.window or grid.image != shape:
        raise PlanError(f"{grid} does not fit images of shape {shape}")
    powers = all(side & (side - 1) == 0 for side in (grid.rows, grid.columns))
    if not powers or grid.period > slots or grid.phases**2 > 64:
        raise PlanError(f"{grid} does not fit {slots} slots")


def in_units(size: float) -> str:
    """Format a number of bytes.

    >>> in_units(3_900_000)
    '3.9 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
