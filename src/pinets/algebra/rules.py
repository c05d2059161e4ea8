"""What each operation of torch is in terms of linear maps and products, or why it is neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domain import Domain, Operation, Signed, Value, depends_on_input
from pinets.algebra.reasons import NORMALISED, UNKNOWN, WHY

__all__ = ["apply", "apply_to_constants"]

Rule = Callable[[Domain, Operation], Any]


class _NotPolynomialError(Exception):
    """Raised by a rule with the reason."""


# Linear in their first argument, whatever the (constant) others are, and none of their coefficients is negative.
_LINEAR_NAMES = """
    view _unsafe_view reshape flatten unflatten permute transpose t mT movedim numpy_T swapaxes
    unsqueeze squeeze expand expand_as repeat repeat_interleave tile view_as reshape_as
    slice select narrow index_select index gather take diagonal tril triu flip roll rot90
    clone alias detach contiguous lift_fresh_copy lift_fresh positive
    sum mean cumsum trace
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d
    upsample_linear1d upsample_bilinear2d upsample_trilinear3d
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    pixel_shuffle pixel_unshuffle channel_shuffle unfold im2col col2im fold
"""


def apply(domain: Domain, operation: Operation) -> Any:
    """Run one operation in a domain."""
    rule = _RULES.get(operation.name, _unknown)
    try:
        return rule(domain, operation)
    except _NotPolynomialError as refusal:
        return domain.refuse(operation, str(refusal))


def apply_to_constants(domain: Domain, operation: Operation, result: Any) -> Any:
    """Run a sum or product of constants in a domain; of other operations, take the result as it is."""
    if operation.name not in _SUMS_AND_PRODUCTS or not isinstance(result, Tensor) or not result.is_floating_point():
        return result
    lifted = [domain.constant(value) if isinstance(value, Tensor) else value for value in operation.args]
    return apply(domain, replace(operation, args=tuple(lifted)))


def _lift(domain: Domain, value: Any) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex()):
        raise _NotPolynomialError("computes with complex numbers; only real ones are understood here")
    return domain.constant(value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64))


def _require_constant(operation: Operation, *positions: int) -> None:
    for position in positions:
        if position < len(operation.args) and isinstance(operation.args[position], Value):
            raise _NotPolynomialError(f"argument {position} depends on the input")


def _unknown(domain: Domain, operation: Operation) -> Value:
    raise _NotPolynomialError(WHY.get(operation.name, UNKNOWN))


def _linear_in_first(domain: Domain, operation: Operation) -> Value:
    first, *rest = operation.args
    if depends_on_input(rest):
        raise _NotPolynomialError("an argument other than the first depends on the input")
    if isinstance(first, (list, tuple)):
        raise _NotPolynomialError("takes a list where one tensor was expected")
    if not operation.example.is_floating_point():
        raise _NotPolynomialError(f"rounds to {operation.example.dtype}")
    options = {key: value for key, value in operation.kwargs.items() if key != "dtype"}  # no change of the function
    return domain.linear(lambda x: operation.target(x, *rest, **options), first)


def _average_pool(domain: Domain, operation: Operation) -> Value:
    """As :func:`_linear_in_first`; what it divides by may be chosen, and be negative."""
    _, *rest = operation.args
    divisor = operation.kwargs.get("divisor_override", rest[5] if len(rest) > 5 else None)
    if divisor is None or divisor > 0:
        return _linear_in_first(domain, operation)

    def pool(x: Tensor) -> Tensor:
        return operation.target(x, *rest, **operation.kwargs)

    return domain.linear(Signed(pool, lambda x: -pool(x)), operation.args[0])


def _nearest(domain: Domain, operation: Operation) -> Value:
    """Which pixel is nearest torch computes in the type of the image, so that another type would get other pixels."""
    _, *rest = operation.args
    size = operation.first_shape[2:]
    single = operation.example.dtype != torch.float64
    if single and size.numel() > 2**24:
        raise _NotPolynomialError("takes an image of more pixels than single precision can count")
    number = torch.arange(size.numel(), dtype=torch.float32 if single else torch.float64).reshape(1, 1, *size)
    chosen = operation.target(number, *rest, **operation.kwargs)
    pixels, shape = chosen.flatten().long(), chosen.shape[2:]
    return domain.linear(
        lambda x: x.flatten(-len(size)).index_select(-1, pixels).unflatten(-1, shape), operation.args[0]
    )


def _negative(domain: Domain, operation: Operation) -> Value:
    return domain.linear(Signed(torch.neg, torch.clone), operation.args[0])


def _with_negative_weights(domain: Domain, operation: Operation) -> Value:
    """As :func:`_linear_in_first`, for functions whose weights only torch knows: their size takes the whole matrix."""
    first, *rest = operation.args

    def function(x: Tensor) -> Tensor:
        return operation.target(x, *rest, **operation.kwargs)

    def magnitude(x: Tensor) -> Tensor:
        identity = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape)
        return torch.tensordot(x.flatten(), torch.vmap(function)(identity).abs(), dims=1)

    return domain.linear(Signed(function, magnitude), first)


def _split(domain: Domain, operation: Operation) -> list[Value]:
    first, *rest = operation.args
    pieces = len(operation.example)

    def piece(position: int) -> Value:
        return domain.linear(lambda x: operation.target(x, *rest, **operation.kwargs)[position], first)

    return [piece(position) for position in range(pieces)]


def _concatenate(domain: Domain, operation: Operation) -> Value:
    tensors, *rest = operation.args
    values = [_lift(domain, tensor) for tensor in tensors]
    return domain.linear(lambda *pieces: operation.target(list(pieces), *rest, **operation.kwargs), *values)


def _sum_of_two(domain: Domain, operation: Operation) -> Value:
    left, right, *rest = operation.args
    target: Any = {"add": torch.add, "sub": torch.sub, "rsub": torch.rsub}[operation.name]
    alpha = operation.kwargs.get("alpha", rest[0] if rest else 1)
    function = Signed(
        lambda x, y: target(x, y, alpha=alpha),
        lambda x, y: abs(alpha) * x + y if operation.name == "rsub" else x + abs(alpha) * y,
    )
    return domain.linear(function, _lift(domain, left), _lift(domain, right))


def _product_of_two(domain: Domain, operation: Operation) -> Value:
    left, right = operation.args
    target: Callable[[Tensor, Tensor], Tensor] = torch.mul if operation.name == "mul" else operation.target
    return domain.product(target, _lift(domain, left), _lift(domain, right))


def _divide(domain: Domain, operation: Operation) -> Value:
    numerator, denominator = operation.args
    if operation.kwargs.get("rounding_mode") is not None:
        raise _NotPolynomialError("rounds")
    if isinstance(denominator, Value):
        raise _NotPolynomialError("divides by a function of the input")
    return domain.linear(Signed(lambda x: x / denominator, lambda x: x / abs(denominator)), numerator)


def _power(domain: Domain, operation: Operation) -> Value:
    base, exponent = operation.args
    if isinstance(exponent, Tensor) and exponent.numel() == 1:
        exponent = exponent.item()
    if isinstance(exponent, (Value, Tensor)):
        raise _NotPolynomialError("has an exponent that is not a number")
    if not float(exponent).is_integer() or exponent < 0:  # neither NaN nor infinity is
        raise _NotPolynomialError(f"has the exponent {exponent}; only whole numbers from 0 on give polynomials")
    if exponent == 0:
        return domain.constant(operation.made(operation.zeros(operation.example.shape) + 1))
    power: Value = base
    for _ in range(int(exponent) - 1):
        power = domain.product(torch.mul, power, base)
    return power


def _square(domain: Domain, operation: Operation) -> Value:
    (base,) = operation.args
    return domain.product(torch.mul, base, base)


def _product_over_axis(domain: Domain, operation: Operation) -> Value:
    base, *rest = operation.args
    if not rest:
        base, axis, size = domain.linear(lambda x: x.flatten(), base), 0, operation.first_shape.numel()
    else:
        axis, size = rest[0], operation.first_shape[rest[0]]
    keepdim = bool(rest[1]) if len(rest) > 1 else False

    def factor(position: int) -> Value:
        return domain.linear(lambda x: x.narrow(axis, position, 1) if keepdim else x.select(axis, position), base)

    result = factor(0)
    for position in range(1, size):
        result = domain.product(torch.mul, result, factor(position))
    return result


def _affine_map(function: Callable[..., Tensor], spatial: int, *, bias_at: int) -> Rule:
    """A layer with weight and bias: bilinear in input and weight, plus the bias along the channel axis."""

    def rule(domain: Domain, operation: Operation) -> Value:
        arguments = list(operation.args)
        value, weight = arguments[:2]
        bias = arguments[bias_at] if len(arguments) > bias_at else operation.kwargs.get("bias")
        rest = arguments[bias_at + 1 :]

        def homogeneous(x: Tensor, w: Tensor) -> Tensor:
            return function(x, w, None, *rest)

        out = domain.product(homogeneous, _lift(domain, value), _lift(domain, weight))
        if bias is None:
            return out
        return domain.linear(lambda y, b: y + b.reshape(-1, *(1,) * spatial), out, _lift(domain, bias))

    return rule


def _bilinear(domain: Domain, operation: Operation) -> Value:
    _require_constant(operation, 2, 3)
    left, right, weight, *bias = operation.args

    def with_weight(w: Tensor) -> Callable[..., Tensor]:
        return lambda x, y: torch.einsum("...i,oij,...j->...o", x, w, y)

    forms = map(with_weight, (weight, weight.abs(), torch.ones_like(weight)))
    out = domain.product(Signed(*forms), _lift(domain, left), _lift(domain, right))
    given = [_lift(domain, value) for value in bias if value is not None]
    return domain.linear(torch.add, out, *given) if given else out


def _batch_norm(domain: Domain, operation: Operation) -> Any:
    """With running statistics, batch norm is an affine map of each channel."""
    value, weight, bias, mean, variance, *rest = operation.args
    epsilon = rest[-1] if operation.name == "_native_batch_norm_legit_no_training" else rest[2]
    uses_batch = operation.name != "_native_batch_norm_legit_no_training" and bool(rest[0])
    if mean is None or variance is None or uses_batch:
        raise _NotPolynomialError("divides by the deviation of its own input; give it running statistics")
    for parameter in (weight, bias, mean, variance):
        if isinstance(parameter, Value):
            raise _NotPolynomialError("has statistics or parameters that depend on the input")
    shape = (1, -1) + (1,) * (_rank(operation.example) - 2)
    scale = ((variance + epsilon).rsqrt() * (1 if weight is None else weight)).reshape(shape)
    scaled = domain.linear(Signed(lambda x: x * scale, lambda x: x * scale.abs()), value)
    shifts = [-mean.reshape(shape) * scale, *([] if bias is None else [bias.reshape(shape)])]
    out = domain.linear(lambda x, *terms: x + sum(terms), scaled, *map(domain.constant, shifts))
    return [out] if operation.name == "_native_batch_norm_legit_no_training" else out


def _rank(example: Any) -> int:
    return (example[0] if isinstance(example, (list, tuple)) else example).ndim


def _instance_norm(domain: Domain, operation: Operation) -> Any:
    if operation.args[5]:
        raise _NotPolynomialError(NORMALISED)
    value, weight, bias, mean, variance, _, _, epsilon, *_ = operation.args
    return _batch_norm(
        domain, replace(operation, args=(value, weight, bias, mean, variance, False, 0.0, epsilon), kwargs={})
    )


def _pad(domain: Domain, operation: Operation) -> Value:
    value, widths, *rest = operation.args
    if operation.name == "constant_pad_nd":
        mode, fill = "constant", rest[0] if rest else 0
    else:
        mode = rest[0] if rest else "constant"
        fill = rest[1] if len(rest) > 1 else None

    def pad(x: Tensor, border: float = 0.0) -> Tensor:
        return torch.nn.functional.pad(x, tuple(widths), mode=mode, value=border if mode == "constant" else None)

    padded = domain.linear(pad, value)
    if not fill:
        return padded
    border = pad(operation.zeros(operation.first_shape), float(fill))
    return domain.linear(torch.add, padded, domain.constant(operation.made(border)))


def _masked_fill(domain: Domain, operation: Operation) -> Value:
    _require_constant(operation, 1, 2)
    value, mask, fill = operation.args
    kept = domain.linear(lambda x: x.masked_fill(mask, 0), value)
    filled = operation.zeros(operation.example.shape).masked_fill(mask, float(fill))
    return domain.linear(torch.add, kept, domain.constant(operation.made(filled)))


def _where(domain: Domain, operation: Operation) -> Value:
    if isinstance(operation.args[0], Value):
        raise _NotPolynomialError(WHY["where"])
    condition, left, right = operation.args
    return domain.linear(lambda x, y: torch.where(condition, x, y), _lift(domain, left), _lift(domain, right))


def _overwrite(domain: Domain, operation: Operation) -> Value:
    """Put one value in place of a part of another: ``x[:, 0] = y``."""
    into, values, *rest = operation.args
    if not operation.example.is_floating_point():
        raise _NotPolynomialError(f"rounds to {operation.example.dtype}")
    if depends_on_input((rest, operation.kwargs)):
        raise _NotPolynomialError("chooses where to write by a function of the input")
    return domain.linear(
        lambda x, y: operation.target(x, y, *rest, **operation.kwargs), _lift(domain, into), _lift(domain, values)
    )


def _overwrite_at(domain: Domain, operation: Operation) -> Value:
    """``index_put``: as :func:`_overwrite`, with the indices between the two."""
    into, indices, values, *rest = operation.args
    return _overwrite(
        domain,
        replace(
            operation,
            target=lambda x, y, at, *others, **options: operation.target(x, at, y, *others, **options),
            args=(into, values, indices, *rest),
        ),
    )


def _copy(domain: Domain, operation: Operation) -> Value:
    """What is written over counts for its shape and type alone."""
    if not operation.example.is_floating_point():
        raise _NotPolynomialError(f"rounds to {operation.example.dtype}")
    shape = operation.example.shape
    return domain.linear(lambda x: x.expand(shape).clone(), _lift(domain, operation.args[1]))


def _to_copy(domain: Domain, operation: Operation) -> Value:
    if not operation.example.is_floating_point():
        raise _NotPolynomialError(f"rounds to {operation.example.dtype}")
    dtype = operation.dtype or operation.example.dtype  # a change of precision is no change of the function
    return domain.linear(lambda x: x.to(dtype, copy=True), operation.args[0])


def _einsum(domain: Domain, operation: Operation) -> Value:
    equation, tensors, *_ = operation.args
    live = [position for position, tensor in enumerate(tensors) if isinstance(tensor, Value)]

    def with_live(*values: Tensor, size: Callable[[Tensor], Tensor] = torch.clone) -> Tensor:
        given = iter(values)
        return torch.einsum(
            equation, *(next(given) if at in live else size(tensor) for at, tensor in enumerate(tensors))
        )

    function = Signed(with_live, partial(with_live, size=torch.abs), partial(with_live, size=torch.ones_like))
    if len(live) == 1:
        return domain.linear(function, tensors[live[0]])
    if len(live) == 2:
        return domain.product(function, tensors[live[0]], tensors[live[1]])
    raise _NotPolynomialError("multiplies more than two functions of the input at once; write it as products of two")


def _add_product(multiply: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """addmm, baddbmm, addcmul, ...: beta * a + alpha * (b times c)."""

    def rule(domain: Domain, operation: Operation) -> Value:
        a, b, c = operation.args[:3]
        beta = operation.kwargs.get("beta", 1)
        alpha = operation.kwargs.get("alpha", operation.kwargs.get("value", 1))
        times = domain.product(multiply, _lift(domain, b), _lift(domain, c))
        function = Signed(lambda x, y: beta * x + alpha * y, lambda x, y: abs(beta) * x + abs(alpha) * y)
        return domain.linear(function, _lift(domain, a), times)

    return rule


def _shape_only(domain: Domain, operation: Operation) -> Tensor:
    """What is made in the shape of a value does not depend on it."""
    _, *rest = operation.args
    return operation.made(operation.target(operation.zeros(operation.first_shape), *rest, **operation.kwargs))


_F = torch.nn.functional

_SUMS_AND_PRODUCTS = {"add", "sub", "mul", "matmul", "mm", "mv", "dot", "linear", "addmm", "addmv"}

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_LINEAR_NAMES.split(), _linear_in_first),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind", "tensor_split"), _split),
    **dict.fromkeys(("add", "sub", "rsub"), _sum_of_two),
    **dict.fromkeys(("mul", "matmul", "mm", "bmm", "mv", "dot", "outer", "inner", "kron"), _product_of_two),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"), _shape_only),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _average_pool),
    **dict.fromkeys((f"upsample_nearest{axes}d" for axes in (1, 2, 3)), _nearest),
    **dict.fromkeys((f"_upsample_nearest_exact{axes}d" for axes in (1, 2, 3)), _nearest),
    "neg": _negative,
    "upsample_bicubic2d": _with_negative_weights,
    "cat": _concatenate,
    "stack": _concatenate,
    "div": _divide,
    "true_divide": _divide,
    "pow": _power,
    "square": _square,
    "prod": _product_over_axis,
    "linear": _affine_map(_F.linear, 0, bias_at=2),
    "conv1d": _affine_map(_F.conv1d, 1, bias_at=2),
    "conv2d": _affine_map(_F.conv2d, 2, bias_at=2),
    "conv3d": _affine_map(_F.conv3d, 3, bias_at=2),
    "conv_transpose1d": _affine_map(_F.conv_transpose1d, 1, bias_at=2),
    "conv_transpose2d": _affine_map(_F.conv_transpose2d, 2, bias_at=2),
    "conv_transpose3d": _affine_map(_F.conv_transpose3d, 3, bias_at=2),
    "bilinear": _bilinear,
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "instance_norm": _instance_norm,
    "constant_pad_nd": _pad,
    "pad": _pad,
    "masked_fill": _masked_fill,
    "where": _where,
    **dict.fromkeys(("select_scatter", "slice_scatter", "diagonal_scatter"), _overwrite),
    **dict.fromkeys(("index_put", "_unsafe_index_put"), _overwrite_at),
    **dict.fromkeys(("copy", "fill"), _copy),
    "_to_copy": _to_copy,
    "to": _to_copy,
    "einsum": _einsum,
    "addmm": _add_product(torch.matmul),
    "addmv": _add_product(torch.matmul),
    "baddbmm": _add_product(torch.matmul),
    "addcmul": _add_product(torch.mul),
}
