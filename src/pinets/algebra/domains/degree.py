"""The degree that the structure of a network allows, and the operations that are not polynomial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.utils._pytree import tree_leaves

from pinets.algebra.domains.base import Domain, Operation, Refusal, Value
from pinets.algebra.reasons import NOT_FINITE, UNKNOWN, UNTRACED

__all__ = ["Degree", "DegreeDomain", "Violation", "each_once"]

_NAMED = 5  # further places of an operation that are named


@dataclass(frozen=True)
class Violation:
    """An operation that keeps a network from being a polynomial of its input."""

    path: str  # of the module, as in model.get_submodule(path); empty for the network itself
    operation: str
    reason: str
    module: str = ""

    @property
    def proven(self) -> bool:
        """Whether the operation is known not to be a polynomial, rather than unknown."""
        return not self.reason.startswith((UNKNOWN, UNTRACED))

    def __str__(self) -> str:
        where = f"{self.path} ({self.module})" if self.path else "forward"
        return f"{where}: {self.operation} {self.reason}"


def each_once(violations: Sequence[Violation]) -> list[tuple[Violation, str]]:
    """Every operation with its reason once, at its first place, and a note on the other places.

    >>> each_once([Violation(path, "relu", "is piecewise linear", "ReLU") for path in ("1", "3", "3", "5")])[0][1]
    ' (also in 3, 5)'
    """
    alike: dict[tuple[str, str], list[Violation]] = {}
    for violation in violations:
        alike.setdefault((violation.operation, violation.reason), []).append(violation)
    return [(found[0], _also_in(found)) for found in alike.values()]


def _also_in(violations: list[Violation]) -> str:
    _, *paths = dict.fromkeys(one.path or "forward" for one in violations)  # a module that runs twice is one place
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f" (also in {', '.join(paths[:_NAMED])}{more})" if paths else ""


@dataclass(frozen=True)
class Degree(Value):
    """An upper bound on the degree; ``zero`` where the value is zero whatever the input."""

    degree: int
    zero: bool = False


class DegreeDomain(Domain[Degree]):
    """Linear maps keep the degree, products add degrees. Other operations are noted and treated as the identity.

    A product with parameters that are all zero vanishes, so a block with a scale of zero does not count.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def constant(self, tensor: Tensor) -> Degree:
        if not tensor.is_meta and not tensor.isfinite().all():
            raise Refusal(NOT_FINITE)
        return Degree(0, zero=not bool(tensor.any()))

    def linear(self, function: Callable[..., Tensor], *values: Degree) -> Degree:
        present = [value for value in values if not value.zero]
        return Degree(max(value.degree for value in present)) if present else Degree(0, zero=True)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], left: Degree, right: Degree) -> Degree:
        if left.zero or right.zero:
            return Degree(0, zero=True)
        return Degree(left.degree + right.degree)

    def refuse(self, operation: Operation, reason: str) -> Degree | list[Degree]:
        arguments = tree_leaves((operation.args, operation.kwargs))
        highest = Degree(max((value.degree for value in arguments if isinstance(value, Degree)), default=0))
        # noted even if zero weights hide the input from the operation: the first step of training would show it
        self.violations.append(Violation(operation.path, operation.name, reason, operation.module))
        if isinstance(operation.example, (list, tuple)):
            return [highest] * len(operation.example)
        return highest
