"""Make the linear operators of a layer, and check the arguments of layers."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol

import torch
from torch import nn

from pinets._modes import evaluating

__all__ = ["LinearOperator", "check_at_least_one", "make_operator"]

# known to be linear; subclasses are not, since they may override forward
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LINEAR = (nn.Linear, nn.Identity, *_CONVOLUTIONS)
_PROBED = [(), *((size,) * axes for axes in (1, 2, 3) for size in (8, 32))]  # spatial sizes of the probes


class LinearOperator(Protocol):
    """The type of ``op``: makes a linear map, such as ``nn.Linear`` or ``partial(nn.Conv2d, kernel_size=3)``."""

    def __call__(
        self,
        fan_in: int,
        fan_out: int,
        /,
        *,
        bias: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> nn.Module: ...


def check_at_least_one(name: str, value: Any) -> int:
    """The value as an int, if it is a whole number of at least 1 of any integer type."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def make_operator(
    op: LinearOperator,
    fan_in: int,
    fan_out: int,
    *,
    bias: bool,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> nn.Module:
    """Call ``op`` and check that the result is an affine map, and linear without ``bias``."""
    if not callable(op):
        raise TypeError(f"op must make linear operators, as nn.Linear does, got {op!r}")
    try:
        operator = op(fan_in, fan_out, bias=bias, device=device, dtype=dtype)
    except TypeError as error:
        raise TypeError(
            f"op must be callable as op(fan_in, fan_out, bias=..., device=..., dtype=...); {op!r} raised: {error}"
        ) from error
    if not isinstance(operator, nn.Module):
        raise TypeError(f"op must return an nn.Module, got {type(operator).__name__}")
    if type(operator) not in _LINEAR:
        _require_affine(operator, fan_in, bias=bias)
    elif not bias and getattr(operator, "bias", None) is not None:
        raise NonLinearOperatorError(f"op must make operators without a bias if bias=False, got {operator}")
    return operator


def _require_affine(operator: nn.Module, fan_in: int, *, bias: bool) -> None:
    """Check numerically that f(x + y) + f(0) = f(x) + f(y).

    Operators that accept none of the probes, such as those on meshes of fixed size, are not checked.
    """
    parameter = next(operator.parameters(), None)
    if parameter is not None and parameter.is_meta:
        return  # no numbers to check with; `certify` still checks the structure
    generator = torch.Generator().manual_seed(0)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    device = torch.device("cpu") if parameter is None else parameter.device
    # in mixed precision, rounding would look like a lack of linearity
    with evaluating(operator), torch.no_grad(), torch.autocast(device.type, enabled=False):
        for spatial in _PROBED:
            x, y = (
                torch.randn(3, fan_in, *spatial, generator=generator, dtype=dtype, device="cpu").to(device)
                for _ in "xy"
            )
            try:
                constant = operator(torch.zeros_like(x))
                left, right = operator(x + y) + constant, operator(x) + operator(y)
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue  # the operator does not take this shape
            tolerance = 1e3 * torch.finfo(dtype).eps * (1 + right.abs().max())
            if not (left - right).abs().max() <= tolerance:
                raise NonLinearOperatorError(
                    f"op must make linear operators, but {operator!r} is not one: f(x + y) + f(0) differs from "
                    f"f(x) + f(y) by {(left - right).abs().max().item():.3g}"
                )
            if not bias and constant.any():
                raise NonLinearOperatorError(
                    f"op must make operators without a bias if bias=False, but {operator!r} maps zeros to "
                    f"{constant.abs().max().item():.3g}"
                )
            return


class NonLinearOperatorError(TypeError):
    """An operator of a layer is not linear."""
