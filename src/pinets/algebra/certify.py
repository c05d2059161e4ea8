"""Is this network a polynomial of its input, and of which degree?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from pinets._modes import evaluating
from pinets.algebra.degree import Degree, DegreeDomain, Violation, each_once
from pinets.algebra.domain import NotPolynomialError
from pinets.algebra.graph import Graph, TraceError, trace
from pinets.algebra.inputs import Inputs, check_inputs, example_for, on_cpu
from pinets.algebra.leading import Leading, LeadingDomain
from pinets.algebra.series import Series, SeriesDomain
from pinets.algebra.untraceable import untraceable_parts

__all__ = ["Certificate", "certify", "require_polynomial"]

_LAMBDA = 1.3247179572447460  # near no fraction of small numbers, so that rounding errors do not scale along
_AGREEMENT = 1e-4  # far above rounding, far below the order-one disagreement of what is only rounding
_EXACT_AGREEMENT = 1e-10  # of single elements, of which there may be so many that some rounding errors come near
_LINE_DEGREES = 32  # beyond, interpolation needs too many evaluations to be worth it
_SERIES_DEGREES = 64


@dataclass(frozen=True)
class Certificate:
    """What is known of a network as a function of its input, in evaluation mode.

    Attributes:
        polynomial: Whether the network is a polynomial of its input.
        degree: The exact degree at the present weights; None if the network is not a polynomial, or if its highest
            terms cancel and the degree is too high to find out which remain (:attr:`notes` then says so).
        violations: The operations that keep the network from being a polynomial.
        bound: The degree that the structure allows (a scale that is zero does not count); None as for ``degree``.
        notes: How the numbers were checked.
    """

    polynomial: bool
    degree: int | None
    violations: list[Violation] = field(default_factory=list)
    bound: int | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.polynomial:
            known = f"of degree {self.degree}" if self.degree is not None else f"of degree at most {self.bound}"
            lines = [f"a polynomial {known}"]
        else:
            count = len(self.violations)
            proven = any(violation.proven for violation in self.violations)
            what = "not a polynomial" if proven else "not known to be a polynomial"
            lines = [f"{what}: {count} operation{'s' if count != 1 else ''} in the way"]
            lines += [f"  - {violation}{elsewhere}" for violation, elsewhere in each_once(self.violations)]
        return "\n".join(lines + [f"  ({note})" for note in self.notes])


def certify(model: nn.Module, example: Inputs | None = None) -> Certificate:
    """Find out whether a network is a polynomial of its input, and its exact degree.

    The graph of the network in evaluation mode is walked with the algebra of degrees, which names every operation that
    is not polynomial. The degree is then confirmed with numbers in double precision: the terms of highest degree are
    computed by themselves and must not vanish, and the network itself, as a black box, must follow a polynomial of
    that degree along a random line.

    Args:
        model: Any network that `torch.export` can trace, on any device. It is left as it was.
        example: An input, or a tuple of them; its shape matters, its values do not. May be left out where the first
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
    certificate, _ = certified_graph(model, check_inputs(example_for(model, example)))
    return certificate


def require_polynomial(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Certificate, Graph]:
    """The certificate and the graph of a network, or an error that names what is in the way."""
    certificate, graph = certified_graph(model, inputs)
    if not certificate.polynomial or graph is None:
        raise NotPolynomialError(f"this is exact for polynomials only, and the network is {certificate}")
    return certificate, graph


def certified_graph(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Certificate, Graph | None]:
    model, inputs = on_cpu(model), tuple(value.cpu() for value in inputs)
    try:
        graph = trace(model, inputs)
    except TraceError as error:
        return Certificate(False, None, untraceable_parts(model, inputs, error)), None
    structure = DegreeDomain()
    outputs = [out for out in graph.run(structure, [Degree(1) for _ in inputs]) if isinstance(out, Degree)]
    if structure.violations:
        return Certificate(False, None, structure.violations), graph
    _require_finite(model, graph)
    bound = max((out.degree for out in outputs), default=0)
    notes: list[str] = []
    degree = _exact_degree(graph, inputs, bound, notes)
    if degree == 0 < bound:
        notes.append("not checked along a line: all terms that depend on the input cancel, and rounding is left")
    elif len(types := graph.float_types) > 1:  # which stay even where the parameters are made double
        notes.append(f"not checked along a line: parts of the network compute in {types[0]}, which rounds")
    elif (deviation := _deviation_along_line(model, inputs, bound, notes)) is not None and deviation > 1e-6:
        reason = f"deviates from a polynomial of degree {bound} along a line by {deviation:.1e} of its size"
        return Certificate(False, None, [Violation("", "the network", reason)], notes=notes), graph
    return Certificate(True, degree, [], bound, notes), graph


def _require_finite(model: nn.Module, graph: Graph) -> None:
    """Refuse a network that diverged: nothing can be said of NaN, and every comparison with it fails silently."""
    for name, value in (*model.named_parameters(), *model.named_buffers(), *graph.constants.items()):
        if value.is_floating_point() and not value.is_meta and not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise ValueError(f"{name} must be finite, got {bad} of {value.numel()} values that are NaN or infinite")


def _exact_degree(graph: Graph, inputs: tuple[Tensor, ...], bound: int, notes: list[str]) -> int | None:
    """The highest degree whose terms do not vanish, by their values at a random point and at a multiple of it."""
    if bound == 0:
        return 0
    generator = torch.Generator().manual_seed(0)
    point = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in inputs]
    first, second = (_leading_forms(graph, [factor * value for value in point]) for factor in (1.0, _LAMBDA))
    if first is not None and second is not None and _same_form(first, second, bound):
        notes.append(f"the terms of degree {bound} do not vanish")
        return bound
    if bound > _SERIES_DEGREES:
        notes.append(f"terms of degree {bound} cancel, and the degree is too high to find those that remain")
        return None
    notes.append(f"the structure allows degree {bound}, but terms cancel")
    here, there = (_series_forms(graph, [factor * value for value in point], bound) for factor in (1.0, _LAMBDA))
    for degree in range(bound, 0, -1):
        scale = _LAMBDA**degree
        pairs = [(a[degree], b[degree] / scale) for a, b in zip(here, there, strict=True)]
        if any(_agree(a, b) for a, b in pairs):
            return degree
    return 0


def _leading_forms(graph: Graph, point: list[Tensor]) -> list[Leading] | None:
    domain = LeadingDomain()
    outputs = graph.run(domain, [Leading(1, value) for value in point], dtype=torch.float64)
    return None if domain.cancelled else [out for out in outputs if isinstance(out, Leading)]


def _series_forms(graph: Graph, point: list[Tensor], bound: int) -> list[Series]:
    outputs = graph.run(SeriesDomain(bound), [Series.of({1: value}) for value in point], dtype=torch.float64)
    return [out for out in outputs if isinstance(out, Series)]


def _same_form(first: list[Leading], second: list[Leading], bound: int) -> bool:
    """Whether some output has terms of the full degree that scale as such terms do, and so are not rounding errors."""
    for a, b in zip(first, second, strict=True):
        if a.degree == b.degree == bound:
            scale = 2.0 ** (b.exponent - a.exponent - bound * math.log2(_LAMBDA))
            if _agree(a.form, b.form * scale):
                return True
    return False


def _agree(a: Tensor, b: Tensor) -> bool:
    """Whether two forms are the same but for rounding: as a whole, or where one is only rounding, in some element."""
    size, apart = a.norm(), (a - b).abs()
    as_a_whole = bool(size > 0) and bool(apart.norm() <= _AGREEMENT * size)
    return as_a_whole or bool(((apart <= _EXACT_AGREEMENT * a.abs()) & (a != 0)).any())


def _deviation_along_line(model: nn.Module, inputs: tuple[Tensor, ...], degree: int, notes: list[str]) -> float | None:
    """Interpolate the network along a random line at degree + 1 points, and compare at others."""
    if degree > _LINE_DEGREES:
        notes.append(f"not checked along a line: the degree is above {_LINE_DEGREES}")
        return None
    generator = torch.Generator().manual_seed(1)
    origin, slope = (
        [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in inputs] for _ in "ab"
    )
    nodes = torch.cos(math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1))
    probes = torch.linspace(-0.95, 0.95, 5, dtype=torch.float64)
    state = {
        name: value.double() if value.is_floating_point() else value
        for name, value in (*model.named_parameters(), *model.named_buffers())
    }

    def along(t: float) -> Tensor:
        values = tuple(o + t * s for o, s in zip(origin, slope, strict=True))
        out = torch.func.functional_call(model, state, values)
        tensors = [value for value in tree_leaves(out) if isinstance(value, Tensor)]
        return torch.cat([value.flatten().double() for value in tensors])  # a network may end in .float()

    with evaluating(model), torch.no_grad():
        try:
            at_nodes = torch.stack([along(t) for t in nodes.tolist()])
            at_probes = torch.stack([along(t) for t in probes.tolist()])
        except RuntimeError as error:
            notes.append(f"not checked along a line: the network does not run in double precision ({error})")
            return None
    if not (at_nodes.isfinite().all() and at_probes.isfinite().all()):
        notes.append("not checked along a line: the values on it are too large for double precision")
        return None
    # barycentric interpolation at Chebyshev points, stable at any degree
    weights = (-1.0) ** torch.arange(degree + 1) * torch.sin(
        math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1)
    )
    terms = weights / (probes[:, None] - nodes)
    predicted = (terms @ at_nodes) / terms.sum(1, keepdim=True)
    deviation = ((predicted - at_probes).abs().max() / at_nodes.abs().max().clamp(min=1e-300)).item()
    notes.append(f"follows degree {degree} along a random line to {deviation:.0e}")
    return deviation
