"""Operations that are linear maps: views, sums, differences, indexing, writing into a part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Operation, Refusal, Signed, Value, depends_on_input
from pinets.algebra.reasons import BITS, WHY
from pinets.algebra.rules.support import Rule, finite, lift, refuse_rounding, require_constant

__all__ = ["MOVES", "RULES", "divide", "linear_in_first"]

# Linear in the first argument for any constant others, without negative coefficients. The first only move elements.
_MOVING = """
    view _unsafe_view reshape flatten unflatten permute transpose t mT movedim numpy_T swapaxes
    unsqueeze squeeze expand expand_as repeat repeat_interleave tile view_as reshape_as
    slice select narrow narrow_copy index_select index gather take diagonal diag_embed tril triu flip roll
    rot90 clone alias contiguous lift_fresh_copy lift_fresh positive
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    pixel_shuffle pixel_unshuffle channel_shuffle unfold im2col
"""
_SUMMING = "sum cumsum trace col2im fold upsample_linear1d upsample_bilinear2d upsample_trilinear3d"
MOVES = {*_MOVING.split()}


def linear_in_first(domain: Domain, operation: Operation) -> Value:
    """A function that is linear in its first argument and needs constants as the others."""
    first, *rest = operation.args
    if depends_on_input(rest):
        raise Refusal("an argument other than the first depends on the input")
    if isinstance(first, (list, tuple)):
        raise Refusal("takes a list where one tensor was expected")
    refuse_rounding(operation)
    options = {key: value for key, value in operation.kwargs.items() if key != "dtype"}  # no change of the function
    return domain.linear(lambda x: operation.target(x, *rest, **options), lift(domain, operation, first))


def _view(domain: Domain, operation: Operation) -> Value:
    """A view of tensors with the network's strides; values of a domain may have others."""
    refuse_rounding(operation)
    if any(isinstance(argument, torch.dtype) for argument in operation.args):
        raise Refusal(BITS)
    shape = operation.example.shape
    return domain.linear(lambda x: x.reshape(shape), lift(domain, operation, operation.args[0]))


def _mean(domain: Domain, operation: Operation) -> Value:
    """A sum that torch divides at the end."""
    value = lift(domain, operation, operation.args[0])
    dims = operation.argument(1, "dim")
    keep = bool(operation.argument(2, "keepdim", False))
    refuse_rounding(operation)
    mean = domain.linear(lambda x: x.mean(dims, keepdim=keep), value)
    return domain.guard(mean, lambda x: x.sum(dims, keepdim=keep), value)


def _detach(domain: Domain, operation: Operation) -> Value:
    """A copy: bounds need the derivative, which torch takes for zero."""
    return domain.linear(torch.clone, lift(domain, operation, operation.args[0]))


def _embedding(domain: Domain, operation: Operation) -> Value:
    """Rows of a matrix; torch takes the derivative by a padding row for zero."""
    require_constant(operation, 1)
    rows = operation.args[1]
    return domain.linear(lambda x: x[rows], lift(domain, operation, operation.args[0]))


def _negative(domain: Domain, operation: Operation) -> Value:
    return domain.linear(Signed(torch.neg, torch.clone), lift(domain, operation, operation.args[0]))


def _split(domain: Domain, operation: Operation) -> list[Value]:
    first, *rest = operation.args
    whole = lift(domain, operation, first)

    def piece(position: int) -> Value:
        return domain.linear(lambda x: operation.target(x, *rest, **operation.kwargs)[position], whole)

    return [piece(position) for position in range(len(operation.example))]


def _concatenate(domain: Domain, operation: Operation) -> Value:
    tensors, *rest = operation.args
    values = [lift(domain, operation, tensor) for tensor in tensors]
    return domain.linear(lambda *pieces: operation.target(list(pieces), *rest, **operation.kwargs), *values)


def _sum_of_two(domain: Domain, operation: Operation) -> Value:
    left, right, *rest = operation.args
    target: Any = {"add": torch.add, "sub": torch.sub, "rsub": torch.rsub}[operation.name]
    alpha = finite(operation, operation.kwargs.get("alpha", rest[0] if rest else 1)).item()
    function = Signed(
        lambda x, y: target(x, y, alpha=alpha),
        lambda x, y: abs(alpha) * x + y if operation.name == "rsub" else x + abs(alpha) * y,
    )
    return domain.linear(function, lift(domain, operation, left), lift(domain, operation, right))


def divide(domain: Domain, operation: Operation) -> Value:
    """A value or a constant over a constant."""
    numerator, denominator = operation.args
    if operation.kwargs.get("rounding_mode") is not None:
        raise Refusal("rounds")
    if isinstance(denominator, Value):
        raise Refusal("divides by a function of the input")
    divisor = finite(operation, denominator)
    if not divisor.all():
        raise Refusal("divides by zero")
    if id(denominator) in operation.enclosures:
        inverse = domain.reciprocal(operation.enclosures[id(denominator)][1])
        if inverse is not None:
            return domain.product(torch.mul, lift(domain, operation, numerator), inverse)
    function = Signed(lambda x: x / divisor, lambda x: x / abs(divisor))
    return domain.linear(function, lift(domain, operation, numerator))


def _masked_fill(domain: Domain, operation: Operation) -> Value:
    require_constant(operation, 1, 2)
    value, mask, fill = operation.args
    kept = domain.linear(lambda x: x.masked_fill(mask, 0), lift(domain, operation, value))
    filled = operation.zeros(operation.example.shape).masked_fill(mask, float(fill))
    return domain.linear(torch.add, kept, domain.constant(operation.made(filled)))


def _where(domain: Domain, operation: Operation) -> Value:
    if isinstance(operation.args[0], Value):
        raise Refusal(WHY["where"])
    condition, left, right = operation.args
    return domain.linear(
        lambda x, y: torch.where(condition, x, y), lift(domain, operation, left), lift(domain, operation, right)
    )


def _write(values: int) -> Rule:
    """An operation that writes or adds values into a part of its first argument: linear in both together."""

    def rule(domain: Domain, operation: Operation) -> Value:
        refuse_rounding(operation)
        into, *between = operation.args[:values]
        source, *rest = operation.args[values:]
        if depends_on_input((between, rest, operation.kwargs)):
            raise Refusal("chooses where to write by a function of the input")
        if operation.kwargs.get("reduce", "add") != "add":
            raise Refusal(f"reduces by {operation.kwargs['reduce']!r}; only sums are understood here")
        alpha = finite(operation, operation.kwargs.get("alpha", 1)).item()  # of index_add
        options = {**operation.kwargs, "alpha": alpha} if "alpha" in operation.kwargs else operation.kwargs

        def write(x: Tensor, y: Any) -> Tensor:
            return operation.target(x, *between, y, *rest, **options)

        if isinstance(source, (Tensor, Value)):
            shape, given = operation.shape, operation.examples[values].shape
            both = lift(domain, operation, into), lift(domain, operation, source)
            if write(torch.ones(shape), torch.zeros(given)).all():  # it adds
                sign = 1 if alpha >= 0 else -1
                return domain.linear(Signed(write, lambda x, y: write(x, sign * y)), *both)
            # a place written twice keeps one value, but gives its derivative to both in torch: bounds would be wrong
            numbers = torch.arange(shape.numel() + given.numel())
            chosen = write(numbers[: shape.numel()].reshape(shape), numbers[shape.numel() :].reshape(given))
            return domain.linear(lambda x, y: torch.cat([x.flatten(), y.flatten()])[chosen], *both)
        kept = domain.linear(lambda x: write(x, 0), lift(domain, operation, into))
        written = write(operation.zeros(operation.shape), source)
        return domain.linear(torch.add, kept, domain.constant(operation.made(written)))

    return rule


def _scatter_reduce(domain: Domain, operation: Operation) -> Value:
    reduce = operation.argument(4, "reduce")
    if reduce not in ("sum", "add"):
        raise Refusal(f"reduces by {reduce!r}; only sums are understood here")
    into, axis, index, values = operation.args[:4]
    if not operation.kwargs.get("include_self", True):
        into = domain.linear(lambda x: x.scatter(axis, index, 0.0), lift(domain, operation, into))
    plain = replace(operation, target=torch.scatter_add, args=(into, axis, index, values), kwargs={})
    return RULES["scatter_add"](domain, plain)


def _expanded(domain: Domain, operation: Operation, argument: Any) -> Value:
    """An argument in the shape and the precision of the result."""
    refuse_rounding(operation)
    shape, dtype = operation.example.shape, operation.dtype or operation.example.dtype
    return domain.linear(lambda x: x.expand(shape).to(dtype, copy=True), lift(domain, operation, argument))


def _to_copy(domain: Domain, operation: Operation) -> Value:
    refuse_rounding(operation)
    dtype = operation.dtype or operation.example.dtype  # a change of precision is no change of the function
    return domain.linear(lambda x: x.to(dtype, copy=True), lift(domain, operation, operation.args[0]))


def _masked_select(domain: Domain, operation: Operation) -> Value:
    require_constant(operation, 1)
    value, mask = operation.args
    shape = torch.broadcast_shapes(operation.shape, mask.shape)
    return domain.linear(lambda x: x.expand(shape)[mask.expand(shape)], lift(domain, operation, value))


def _shape_only(domain: Domain, operation: Operation) -> Tensor | Value:
    """A tensor made in the shape of a value depends on what it is filled with alone."""
    _, *rest = operation.args
    fills = [argument for argument in (*rest, *operation.kwargs.values()) if isinstance(argument, Value)]
    if fills:
        return _expanded(domain, operation, fills[0])
    return operation.made(operation.target(operation.zeros(operation.shape), *rest, **operation.kwargs))


RULES: dict[str, Rule] = {
    **dict.fromkeys([*MOVES, *_SUMMING.split()], linear_in_first),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "view_as", "reshape_as"), _view),
    "expand_as": lambda domain, operation: _expanded(domain, operation, operation.args[0]),
    "mean": _mean,
    "detach": _detach,
    "embedding": _embedding,
    "neg": _negative,
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind", "tensor_split"), _split),
    **dict.fromkeys(("cat", "stack"), _concatenate),
    **dict.fromkeys(("add", "sub", "rsub"), _sum_of_two),
    **dict.fromkeys(("div", "true_divide"), divide),
    "masked_fill": _masked_fill,
    "where": _where,
    **dict.fromkeys(("select_scatter", "slice_scatter", "diagonal_scatter"), _write(1)),
    **dict.fromkeys(("index_put", "_unsafe_index_put", "masked_scatter", "put"), _write(2)),
    **dict.fromkeys(("scatter", "scatter_add", "index_add", "index_copy", "index_fill"), _write(3)),
    "scatter_reduce": _scatter_reduce,
    # what is overwritten only gives the shape and the type
    **dict.fromkeys(("copy", "fill"), lambda domain, operation: _expanded(domain, operation, operation.args[1])),
    **dict.fromkeys(("_to_copy", "to"), _to_copy),
    "item": lambda domain, operation: domain.linear(
        lambda x: x.reshape(()), lift(domain, operation, operation.args[0])
    ),
    "sym_size": lambda domain, operation: operation.shape[operation.args[1]],
    "masked_select": _masked_select,
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"), _shape_only),
}
