"""Operations of layers: affine maps, batch norm, pooling, padding, upsampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pinets.algebra.domains.base import Domain, Operation, Refusal, Signed, Value
from pinets.algebra.reasons import NORMALISED
from pinets.algebra.rules.linear import linear_in_first
from pinets.algebra.rules.support import Rule, at_least_one, finite, lift, require_constant

__all__ = ["RULES"]


def _affine_map(function: Callable[..., Tensor], spatial: int) -> Rule:
    """A layer with weight and bias: bilinear in input and weight, plus the bias along the channel axis."""

    def rule(domain: Domain, operation: Operation) -> Value:
        value, weight, *rest = operation.args
        bias = operation.argument(2, "bias")

        def homogeneous(x: Tensor, w: Tensor) -> Tensor:
            return function(x, w, None, *rest[1:])

        out = domain.product(homogeneous, lift(domain, operation, value), lift(domain, operation, weight))
        if bias is None:
            return out
        return domain.linear(lambda y, b: y + b.reshape(-1, *(1,) * spatial), out, lift(domain, operation, bias))

    return rule


def _bilinear(domain: Domain, operation: Operation) -> Value:
    require_constant(operation, 2, 3)
    left, right, weight, *bias = operation.args
    x, y, weight = lift(domain, operation, left), lift(domain, operation, right), finite(operation, weight)

    def with_weight(w: Tensor) -> Callable[..., Tensor]:
        return lambda x, y: torch.einsum("...i,oij,...j->...o", x, w, y)

    form = domain.product(Signed(*map(with_weight, (weight, weight.abs(), torch.ones_like(weight)))), x, y)
    out = domain.guard(form, lambda x, y: with_weight(at_least_one(weight))(at_least_one(x), at_least_one(y)), x, y)
    given = [lift(domain, operation, value) for value in bias if value is not None]
    return domain.linear(torch.add, out, *given) if given else out


def _batch_norm(domain: Domain, operation: Operation) -> Any:
    """With running statistics, batch norm is an affine map of each channel."""
    value, weight, bias, mean, variance, *rest = operation.args
    epsilon = rest[-1] if operation.name == "_native_batch_norm_legit_no_training" else rest[2]
    uses_batch = operation.name != "_native_batch_norm_legit_no_training" and bool(rest[0])
    if mean is None or variance is None or uses_batch:
        raise Refusal("divides by the deviation of its own input; give it running statistics")
    for parameter in (weight, bias, mean, variance):
        if isinstance(parameter, Value):
            raise Refusal("has statistics or parameters that depend on the input")
    if not variance.is_meta and not (variance + epsilon > 0).all():
        raise Refusal("takes the root of a running variance that is not positive")
    example = operation.example[0] if isinstance(operation.example, (list, tuple)) else operation.example
    shape = (1, -1) + (1,) * (example.ndim - 2)
    inverse = (variance + epsilon).rsqrt()
    scale = (inverse * (1 if weight is None else weight)).reshape(shape)
    value = lift(domain, operation, value)
    scaled = domain.linear(Signed(lambda x: x * scale, lambda x: x * scale.abs()), value)
    shifts = [-mean.reshape(shape) * scale, *([] if bias is None else [bias.reshape(shape)])]
    out = domain.linear(lambda x, *terms: x + sum(terms), scaled, *map(domain.constant, shifts))
    largest_factor = at_least_one(inverse) * (1 if weight is None else at_least_one(weight))

    def reach(x: Tensor) -> Tensor:
        return at_least_one(x + mean.abs().reshape(shape)) * largest_factor.reshape(shape)

    out = domain.guard(out, reach, value)
    return [out] if operation.name == "_native_batch_norm_legit_no_training" else out


def _instance_norm(domain: Domain, operation: Operation) -> Any:
    if operation.args[5]:
        raise Refusal(NORMALISED)
    value, weight, bias, mean, variance, _, _, epsilon, *_ = operation.args
    return _batch_norm(
        domain, replace(operation, args=(value, weight, bias, mean, variance, False, 0.0, epsilon), kwargs={})
    )


def _average_pool(domain: Domain, operation: Operation) -> Value:
    """A sum that torch divides at the end, by a number that may be chosen, and be negative."""
    value, kernel, *rest = operation.args
    divisor = operation.kwargs.get("divisor_override", rest[4] if len(rest) > 4 else None)

    def pool(x: Tensor) -> Tensor:
        return operation.target(x, kernel, *rest, **operation.kwargs)

    if divisor == 0:
        raise Refusal("divides by zero")
    sign = -1 if divisor is not None and divisor < 0 else 1
    value = lift(domain, operation, value)
    out = domain.linear(Signed(pool, lambda x: sign * pool(x)), value)
    window = abs(divisor) if divisor is not None else math.prod(kernel)
    return domain.guard(out, lambda x: sign * window * pool(x), value)


def _adaptive_pool(domain: Domain, operation: Operation) -> Value:
    """As :func:`_average_pool`, over windows of at most the whole image."""
    first, *rest = operation.args
    out, pixels = linear_in_first(domain, operation), operation.shape[1:].numel()
    return domain.guard(out, lambda x: pixels * operation.target(x, *rest), lift(domain, operation, first))


def _nearest(domain: Domain, operation: Operation) -> Value:
    """Torch computes which pixel is nearest in the type of the image, so that another type would get other pixels."""
    image, *rest = operation.args
    size = operation.shape[2:]
    single = operation.example.dtype != torch.float64
    if single and size.numel() > 2**24:
        raise Refusal("takes an image of more pixels than single precision can count")
    number = torch.arange(size.numel(), dtype=torch.float32 if single else torch.float64).reshape(1, 1, *size)
    chosen = operation.target(number, *rest, **operation.kwargs)
    pixels, shape = chosen.flatten().long(), chosen.shape[2:]
    return domain.linear(
        lambda x: x.flatten(-len(size)).index_select(-1, pixels).unflatten(-1, shape), lift(domain, operation, image)
    )


def _with_unknown_weights(domain: Domain, operation: Operation) -> Value:
    """A linear map whose weights only torch knows: their absolute values take the whole matrix."""
    require_constant(operation, 1)
    first, *rest = operation.args

    def function(x: Tensor) -> Tensor:
        return operation.target(x, *rest, **operation.kwargs)

    def magnitude(x: Tensor) -> Tensor:
        identity = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape)
        return torch.tensordot(x.flatten(), torch.vmap(function)(identity).abs(), dims=1)

    return domain.linear(Signed(function, magnitude), lift(domain, operation, first))


def _pad(domain: Domain, operation: Operation) -> Value:
    value, widths, *rest = operation.args
    if operation.name == "constant_pad_nd":
        mode, fill = "constant", rest[0] if rest else 0
    else:
        mode = rest[0] if rest else "constant"
        fill = rest[1] if len(rest) > 1 else None

    def pad(x: Tensor, border: float = 0.0) -> Tensor:
        return torch.nn.functional.pad(x, tuple(widths), mode=mode, value=border if mode == "constant" else None)

    padded = domain.linear(pad, lift(domain, operation, value))
    if not fill:
        return padded
    border = pad(operation.zeros(operation.shape), float(fill))
    return domain.linear(torch.add, padded, domain.constant(operation.made(border)))


_F = torch.nn.functional

RULES: dict[str, Rule] = {
    "linear": _affine_map(_F.linear, 0),
    "conv1d": _affine_map(_F.conv1d, 1),
    "conv2d": _affine_map(_F.conv2d, 2),
    "conv3d": _affine_map(_F.conv3d, 3),
    "conv_transpose1d": _affine_map(_F.conv_transpose1d, 1),
    "conv_transpose2d": _affine_map(_F.conv_transpose2d, 2),
    "conv_transpose3d": _affine_map(_F.conv_transpose3d, 3),
    "bilinear": _bilinear,
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training"), _batch_norm),
    "instance_norm": _instance_norm,
    **dict.fromkeys((f"avg_pool{axes}d" for axes in (1, 2, 3)), _average_pool),
    **dict.fromkeys((f"adaptive_avg_pool{axes}d" for axes in (1, 2, 3)), _adaptive_pool),
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _adaptive_pool),
    **dict.fromkeys((f"upsample_nearest{axes}d" for axes in (1, 2, 3)), _nearest),
    **dict.fromkeys((f"_upsample_nearest_exact{axes}d" for axes in (1, 2, 3)), _nearest),
    "upsample_bicubic2d": _with_unknown_weights,
    **dict.fromkeys(("constant_pad_nd", "pad"), _pad),
}
