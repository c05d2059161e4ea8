"""Is this network a polynomial of its input, and of which degree?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from pinets.algebra.domains.base import NotPolynomialError, Refusal
from pinets.algebra.domains.degree import Degree, DegreeDomain, Violation, each_once
from pinets.algebra.domains.interval import Interval, IntervalDomain
from pinets.algebra.domains.leading import Leading, LeadingDomain
from pinets.algebra.domains.rounding import Rounding
from pinets.algebra.domains.series import Series, SeriesDomain
from pinets.algebra.graph import Graph, TraceError
from pinets.algebra.inputs import Inputs
from pinets.algebra.reasons import NOT_FINITE
from pinets.algebra.traced import Traced, as_traced

__all__ = ["Certificate", "as_power", "certificate_of", "certify", "require_polynomial"]

_LAMBDA = 1.3247179572447460  # near no fraction of small integers, so that rounding errors do not scale with it
_AGREEMENT = 1e-4  # forms agree to rounding, about 1e-12; rounding errors alone differ by their whole size
_EXACT_AGREEMENT = 1e-10  # for single elements: among many, two rounding errors may agree by chance
_ALONG_LINE = 1e-6  # largest deviation from a polynomial along a line, relative to the values on it
_LEBESGUE = 4.0  # how much interpolation at 33 points can enlarge errors at these points
_LINE_DEGREES = 32  # higher degrees need too many evaluations along the line
_SERIES_DEGREES = 64
_FAR_APART = 1000  # binary digits between two numbers that cannot be equal up to rounding
_LONG = 10_000  # a degree from here on is also shown as a power


@dataclass(frozen=True)
class Certificate:
    """Whether a network in evaluation mode is a polynomial of its input.

    Attributes:
        polynomial: Whether the network is a polynomial of its input.
        degree: The exact degree at the present weights; None if the network is not a polynomial, or if its highest
            terms cancel and the degree is too high to find which terms remain (:attr:`notes` then says so).
        violations: The operations that keep the network from being a polynomial.
        bound: The degree that the structure allows, not counting terms with a scale of zero; None if the network is not
            a polynomial.
        notes: How the degree was checked with numbers.
    """

    polynomial: bool
    degree: int | None
    violations: list[Violation] = field(default_factory=list)
    bound: int | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.polynomial:
            highest = self.bound if self.degree is None else self.degree
            power = "" if highest is None or highest < _LONG else f" = {as_power(highest)}"
            lines = [f"a polynomial of degree {'at most ' if self.degree is None else ''}{highest}{power}"]
        else:
            count = len(self.violations)
            proven = any(violation.proven for violation in self.violations)
            what = "not a polynomial" if proven else "not known to be a polynomial"
            lines = [f"{what}: {count} operation{'s' if count != 1 else ''} in the way"]
            lines += [f"  - {violation}{elsewhere}" for violation, elsewhere in each_once(self.violations)]
        return "\n".join(lines + [f"  ({note})" for note in self.notes])


def as_power(degree: int) -> str:
    """A degree; a long one as a power of two, times an odd number where that is short, else about.

    >>> as_power(16), as_power(2**40), as_power(5 * 2**60), as_power(3**60)
    ('16', '2^40', '5·2^60', 'about 10^28.6')
    """
    if degree < _LONG:
        return str(degree)
    twos = (degree & -degree).bit_length() - 1
    odd = degree >> twos
    if odd < _LONG:
        return f"2^{twos}" if odd == 1 else f"{odd}·2^{twos}"
    return f"about 10^{math.log10(degree):.1f}"


def certify(model: nn.Module | Traced, example: Inputs | None = None) -> Certificate:
    """Find out whether a network is a polynomial of its input, and its exact degree.

    The algebra of degrees walks the graph of the network in evaluation mode and names every operation that is not
    polynomial. Numbers in double precision then confirm the degree: the terms of highest degree are computed by
    themselves and must not vanish, and the network as a black box must follow a polynomial of that degree along a
    random line.

    Args:
        model: Any network that `torch.export` can trace, on any device, or a traced one
            (:func:`~pinets.algebra.trace`). It is left as it was.
        example: An input, or a tuple of them; its shape matters, its values do not. May be left out if the first
            layer is an ``nn.Linear``.

    Example:
        >>> from pinets import CCP
        >>> certificate = certify(CCP(4, 2, rank=3, order=5))
        >>> certificate.polynomial, certificate.degree
        (True, 5)
        >>> print(certify(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4)))
        not a polynomial: 1 operation in the way
          - 1 (ReLU): relu is piecewise linear; PowerSum, or a product of two linear maps, is a polynomial in its place
    """
    try:
        return as_traced(model, example).certificate
    except TraceError as error:
        return Certificate(False, None, error.violations)


def require_polynomial(model: nn.Module | Traced, example: Inputs | None) -> Traced:
    """The traced network, or an error that names what keeps it from being a polynomial."""
    try:
        traced = as_traced(model, example)
    except TraceError as error:
        certificate = Certificate(False, None, error.violations)
    else:
        certificate = traced.certificate
        if certificate.polynomial:
            return traced
    raise NotPolynomialError(f"this is exact for polynomials only, and the network is {certificate}")


def certificate_of(traced: Traced) -> Certificate:
    """Certify a traced network."""
    graph, inputs = traced.graph, traced.example
    structure = DegreeDomain()
    outputs = graph.run(structure, [Degree(1) for _ in inputs])
    if any(violation.reason != NOT_FINITE for violation in structure.violations):
        return Certificate(False, None, structure.violations)
    _require_finite(traced)  # names the weights, if a network diverged
    if structure.violations:
        return Certificate(False, None, structure.violations)
    bound = max((out.degree for out in outputs if isinstance(out, Degree)), default=0)
    notes: list[str] = []
    types, given = graph.float_types, {value.dtype for value in inputs}
    try:
        _refuse_if_not_finite([out for out in outputs if isinstance(out, Tensor)])
        degree = _exact_degree(graph, inputs, bound, notes)
        if degree == 0 < bound:
            notes.append("not checked along a line: all terms that depend on the input cancel, and rounding is left")
        elif types and types[0] != torch.float64 and {*types} != given:  # casts remain when parameters become double
            notes.append(f"not checked along a line: parts of the network compute in {types[0]}, which rounds")
        else:
            _follow_line(traced, bound, notes)
    except Refusal as refusal:
        return Certificate(False, None, [Violation("", "the network", str(refusal))], notes=notes)
    return Certificate(True, degree, [], bound, notes)


def _require_finite(traced: Traced) -> None:
    """Refuse a network that diverged: every comparison with NaN fails silently."""
    network = traced.network
    for name, value in (*network.named_parameters(), *network.named_buffers(), *traced.graph.constants.items()):
        if value.is_floating_point() and not value.is_meta and not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise ValueError(f"{name} must be finite, got {bad} of {value.numel()} values that are NaN or infinite")


def _refuse_if_not_finite(values: Sequence[Tensor]) -> None:
    if not all(value.is_meta or value.isfinite().all() for value in values):
        raise Refusal("gives values that are NaN or infinite")


def _exact_degree(graph: Graph, inputs: tuple[Tensor, ...], bound: int, notes: list[str]) -> int | None:
    """The highest degree whose terms do not vanish, by their values at a random point and at a multiple of it."""
    if bound == 0:
        return 0
    generator = torch.Generator().manual_seed(0)
    point = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in inputs]
    domain = LeadingDomain()
    first, second = (_leading_forms(graph, domain, [factor * value for value in point]) for factor in (1.0, _LAMBDA))
    _refuse_if_not_finite([out.form for out in first])
    if not domain.cancelled and _same_form(first, second, bound):
        notes.append(f"the terms of degree {bound} do not vanish")
        return bound
    if bound > _SERIES_DEGREES:
        notes.append(f"terms of degree {bound} cancel, and the degree is too high to find those that remain")
        return None
    notes.append(f"the structure allows degree {bound}, but terms cancel")
    here, there = (_series_forms(graph, [factor * value for value in point], bound) for factor in (1.0, _LAMBDA))
    if not all(term.isfinite().all() for series in (*here, *there) for term in series.coefficients.values()):
        notes.append("the terms that remain are too large for double precision")
        return None
    for degree in range(bound, 0, -1):
        scale = _LAMBDA**degree
        pairs = [(a[degree], b[degree] / scale) for a, b in zip(here, there, strict=True)]
        if any(_agree(a, b) for a, b in pairs):
            return degree
    return 0


def _leading_forms(graph: Graph, domain: LeadingDomain, point: list[Tensor]) -> list[Leading]:
    outputs = graph.run(domain, [Leading(1, value) for value in point], dtype=torch.float64)
    return [out for out in outputs if isinstance(out, Leading)]


def _series_forms(graph: Graph, point: list[Tensor], bound: int) -> list[Series]:
    outputs = graph.run(SeriesDomain(bound), [Series.of({1: value}) for value in point], dtype=torch.float64)
    return [out for out in outputs if isinstance(out, Series)]


def _same_form(first: list[Leading], second: list[Leading], bound: int) -> bool:
    """Whether some output has terms of the full degree, which scale as rounding errors do not."""
    if bound.bit_length() > _FAR_APART:  # more than a float can hold
        return False
    for a, b in zip(first, second, strict=True):
        if a.degree == b.degree == bound:
            apart = b.exponent - a.exponent - bound * math.log2(_LAMBDA)
            if abs(apart) < _FAR_APART and _agree(a.form, b.form * 2.0**apart):
                return True
    return False


def _agree(a: Tensor, b: Tensor) -> bool:
    """Whether two forms are equal up to rounding: as a whole, or in some element where others are only rounding."""
    size, apart = a.norm(), (a - b).abs()
    as_a_whole = bool(size > 0) and bool(apart.norm() <= _AGREEMENT * size)
    return as_a_whole or bool(((apart <= _EXACT_AGREEMENT * a.abs()) & (a != 0)).any())


def _follow_line(traced: Traced, degree: int, notes: list[str]) -> None:
    """Interpolate the network along a random line at degree + 1 points, and compare at others."""
    if degree > _LINE_DEGREES:
        notes.append(f"not checked along a line: the degree is above {_LINE_DEGREES}")
        return
    generator = torch.Generator().manual_seed(1)
    origin, slope = (
        [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in traced.example] for _ in "ab"
    )
    angles = math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1)
    nodes = torch.cos(angles)
    probes = torch.linspace(-0.95, 0.95, 5, dtype=torch.float64)
    evaluate = traced.evaluator(torch.float64)

    def along(t: float) -> Tensor:
        outputs = evaluate(*(o + t * s for o, s in zip(origin, slope, strict=True)))
        return torch.cat([value.flatten().double() for value in outputs])  # a network may end in .float()

    with torch.no_grad():
        try:
            at_nodes = torch.stack([along(t) for t in nodes.tolist()])
            at_probes = torch.stack([along(t) for t in probes.tolist()])
        except RuntimeError as error:
            notes.append(f"not checked along a line: the network does not run in double precision ({error})")
            return
        if not (at_nodes.isfinite().all() and at_probes.isfinite().all()):
            _refuse_if_not_finite(evaluate(*(torch.zeros_like(value) for value in origin)))
            notes.append("not checked along a line: the values on it are too large for double precision")
            return
    # barycentric interpolation at Chebyshev points, stable at any degree
    weights = (-1.0) ** torch.arange(degree + 1) * torch.sin(angles)
    terms = weights / (probes[:, None] - nodes)
    predicted = (terms @ at_nodes) / terms.sum(1, keepdim=True)
    smallest = max(torch.finfo(dtype).tiny for dtype in (torch.float64, *traced.graph.float_types))  # that counts
    apart, size = (predicted - at_probes).abs().amax(0), at_nodes.abs().max().clamp(min=smallest)
    deviation = (apart.max() / size).item()
    if not deviation <= _ALONG_LINE:
        rounding = _rounding(traced, [tuple(o + t * s for o, s in zip(origin, slope, strict=True)) for t in nodes])
        if not (apart <= _ALONG_LINE * size + _LEBESGUE * rounding).all():
            raise Refusal(f"deviates from a polynomial of degree {degree} along a line by {deviation:.1e} of its size")
        notes.append("not checked along a line: its values are smaller than the rounding errors on the way to them")
        return
    notes.append(f"follows degree {degree} along a random line to {deviation:.0e}")


def _rounding(traced: Traced, points: list[tuple[Tensor, ...]]) -> Tensor:
    """A bound on the rounding errors of the outputs at some points in double precision."""
    errors = []
    for values in points:
        found = traced.graph.run(
            IntervalDomain(Rounding.of(torch.float64)),
            [Interval(value, value) for value in values],
            dtype=torch.float64,
            rounds_constants=True,
        )
        radii = [(out.radius if isinstance(out, Interval) else torch.zeros_like(out)).flatten() for out in found]
        errors.append(torch.cat(radii).nan_to_num(torch.inf))
    return torch.stack(errors).amax(0)
