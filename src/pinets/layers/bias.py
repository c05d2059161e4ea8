"""The paper's factored bias B_n^T b_n: a parametrisation of an operator's bias."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pinets.layers.build import check_at_least_one

__all__ = ["FactoredBias", "factor_bias", "set_bias_std"]


class FactoredBias(nn.Module):
    r"""Compute a bias of size :math:`k` from a vector of size :math:`\omega`: :math:`B^T b`.

    Args:
        size: The size :math:`\omega` of the vector.
        features: The size :math:`k` of the bias.
    """

    def __init__(
        self,
        size: int,
        features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, features, device=device, dtype=dtype))  # B_n
        nn.init.normal_(self.weight, std=size**-0.5)

    def forward(self, vector: Tensor) -> Tensor:
        return vector @ self.weight

    def right_inverse(self, bias: Tensor) -> Tensor:
        """The vector that gives this bias, for ``operator.bias = ...``; an error if there is none."""
        if bias.is_meta:
            return bias.new_ones(self.weight.shape[0])
        double = torch.promote_types(bias.dtype, torch.float64)
        columns, wanted = self.weight.detach().T.to(double), bias.detach().to(double)[:, None]
        vector = torch.linalg.pinv(columns) @ wanted
        rounding = torch.finfo(bias.dtype).eps * float(columns.abs().sum(1).max())  # of the factor, in half precision
        if not torch.allclose(columns @ vector, wanted, rtol=1e-4, atol=max(1e-6, rounding)):
            size, features = self.weight.shape
            raise ValueError(
                f"a bias of {features} numbers factored through {size} cannot take this value: set its factors "
                "parametrizations.bias.original and parametrizations.bias[0].weight instead"
            )
        return vector[:, 0].to(bias.dtype)

    def start_at(self, bias: Tensor) -> None:
        """Set the weight so that a vector of ones gives this bias."""
        with torch.no_grad():
            self.weight.add_((bias - self.weight.sum(0)) / len(self.weight))


def factor_bias(operator: nn.Module, size: int) -> nn.Module:
    r"""Replace the bias of an operator by :math:`B^T b` with :math:`b` of the given size :math:`\omega`.

    The operator's function does not change. ``operator.bias`` is the product; :math:`b` is
    ``operator.parametrizations.bias.original`` and :math:`B` is ``operator.parametrizations.bias[0].weight``.

    Example:
        >>> body = factor_bias(nn.Linear(8, 8), size=3)
        >>> body.bias.shape, body.parametrizations.bias.original.shape
        (torch.Size([8]), torch.Size([3]))
    """
    check_at_least_one("bias_size", size)
    bias = getattr(operator, "bias", None)
    if not isinstance(bias, Tensor) or bias.ndim != 1:
        raise TypeError(f"factor_bias needs an operator with a bias vector, got {operator!r}")
    factored = FactoredBias(size, bias.shape[0], device=bias.device, dtype=bias.dtype)
    factored.start_at(bias)
    # unsafe: b has another shape than the bias it replaces
    return parametrize.register_parametrization(operator, "bias", factored, unsafe=True)


def set_bias_std(operator: nn.Module, std: float) -> None:
    """Draw the bias, factored or not, with the given standard deviation; do nothing without a bias."""
    if parametrize.is_parametrized(operator, "bias"):
        parametrization = cast("parametrize.ParametrizationList", operator.get_submodule("parametrizations.bias"))
        factor = cast("FactoredBias", parametrization[0]).weight
        nn.init.ones_(parametrization.original)
        nn.init.normal_(factor, std=std * factor.shape[0] ** -0.5)
        return
    bias = getattr(operator, "bias", None)
    if isinstance(bias, Tensor):
        nn.init.normal_(bias, std=std)
