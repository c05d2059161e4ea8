"""Every operation of torch as linear maps and products, or the reason why it is neither."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map

from pinets.algebra.domains.base import Domain, NotPolynomialError, Operation, Refusal, Value
from pinets.algebra.reasons import UNKNOWN, WHY
from pinets.algebra.rules import layers, linear, products
from pinets.algebra.rules.support import Rule

__all__ = ["KNOWN", "apply", "enclose"]

_RULES: dict[str, Rule] = {**linear.RULES, **products.RULES, **layers.RULES}
KNOWN = frozenset((*_RULES, *WHY))  # the operations that have a rule, or a reason why there is none


def apply(domain: Domain, operation: Operation) -> Any:
    """Run one operation in a domain."""
    rule = _RULES.get(operation.name)
    try:
        if rule is None or not isinstance(operation.target, OpOverload):  # but an operator of Python on a number
            raise Refusal(WHY.get(operation.name, UNKNOWN))
        return rule(domain, operation)
    except Refusal as refusal:
        return domain.refuse(operation, str(refusal))


def enclose(domain: Domain, operation: Operation, result: Any) -> dict[int, tuple[Tensor, Value]]:
    """The values of computed constants, which include the rounding of an operation on constants alone.

    Operations without a rule are taken to give their result without rounding.

    Args:
        domain: One that knows rounding.
        operation: An operation on constants.
        result: What the operation gives.

    Returns:
        The value of each tensor of the result, by the tensor's ``id``; the tensor is kept, so that the ``id`` stays its
        own.
    """
    results = [value for value in (result if isinstance(result, (list, tuple)) else [result]) if _is_real(value)]
    exact = not any(id(argument) in operation.enclosures for argument in tree_leaves(operation.args))
    if not results or operation.name not in _RULES or (exact and operation.name in linear.MOVES):
        return {}

    def lift(argument: Any) -> Any:
        if not _is_real(argument):
            return argument
        known = operation.enclosures.get(id(argument))
        return domain.constant(argument) if known is None else known[1]

    lifted = tree_map(lift, operation.args)
    for args in (lifted, (*lifted[:1], *operation.args[1:])):  # some rules need constants behind the first argument
        try:
            found = _RULES[operation.name](domain, replace(operation, args=args))
        except (Refusal, NotPolynomialError):
            continue
        values = found if isinstance(found, (list, tuple)) else [found]
        if len(values) == len(results) and all(isinstance(value, Value) for value in values):
            return {id(tensor): (tensor, value) for tensor, value in zip(results, values, strict=True)}
    return {}


def _is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
