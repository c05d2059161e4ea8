"""Making the linear operators of a layer, and refusing what cannot work before anything is built."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol

import torch
from torch import nn

from pinets._modes import evaluating

__all__ = ["LinearOperator", "check_at_least_one", "make_operator"]

# known to be linear, and only themselves: what is derived from them may do anything
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LINEAR = (nn.Linear, nn.Identity, *_CONVOLUTIONS)
_PROBED = [(), *((size,) * axes for axes in (1, 2, 3) for size in (8, 32))]  # heights, widths and depths of probes


class LinearOperator(Protocol):
    """What ``op`` must be: a maker of linear maps, such as ``nn.Linear`` or ``partial(nn.Conv2d, kernel_size=3)``."""

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
    """The value as an int, where it is a whole number from 1 on, of whatever type."""
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
    """Call ``op`` and refuse the result unless it is an affine map (linear where ``bias`` is false)."""
    if not callable(op):
        raise TypeError(f"op must make linear operators, as nn.Linear does; got {op!r}")
    try:
        operator = op(fan_in, fan_out, bias=bias, device=device, dtype=dtype)
    except TypeError as error:
        raise TypeError(
            f"op must be callable as op(fan_in, fan_out, bias=..., device=..., dtype=...); {op!r} answered: {error}"
        ) from error
    if not isinstance(operator, nn.Module):
        raise TypeError(f"op must return an nn.Module, got {type(operator).__name__}")
    if type(operator) not in _LINEAR:
        _require_affine(operator, fan_in, bias=bias)
    elif not bias and getattr(operator, "bias", None) is not None:
        raise NonLinearOperatorError(f"op must make operators without a bias where bias=False is asked, got {operator}")
    return operator


def _require_affine(operator: nn.Module, fan_in: int, *, bias: bool) -> None:
    """Probe an operator torch does not know with numbers: f(x + y) + f(0) = f(x) + f(y), or it is not affine.

    Operators that take no such input, as those on meshes, whose vertices are fixed, are not probed.
    """
    parameter = next(operator.parameters(), None)
    if parameter is not None and parameter.is_meta:
        return  # there is nothing to compute with; `certify` still looks at the structure
    generator = torch.Generator().manual_seed(0)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    device = None if parameter is None else parameter.device
    with evaluating(operator), torch.no_grad():
        for spatial in _PROBED:
            x, y = (torch.randn(3, fan_in, *spatial, generator=generator, dtype=dtype).to(device) for _ in "xy")
            try:
                constant = operator(torch.zeros_like(x))
                left, right = operator(x + y) + constant, operator(x) + operator(y)
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue  # not a shape this operator takes
            tolerance = 1e3 * torch.finfo(dtype).eps * (1 + right.abs().max())
            if not (left - right).abs().max() <= tolerance:
                raise NonLinearOperatorError(
                    f"op must make linear operators, but {operator!r} is not one: f(x + y) + f(0) differs from "
                    f"f(x) + f(y) by {(left - right).abs().max().item():.3g}"
                )
            if not bias and constant.any():
                raise NonLinearOperatorError(
                    f"op must make operators without a bias where bias=False is asked, but {operator!r} gives "
                    f"{constant.abs().max().item():.3g} for zeros"
                )
            return


class NonLinearOperatorError(TypeError):
    """An operator that is not linear was given where the recursion needs one."""
