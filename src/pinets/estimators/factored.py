r"""Write fitted polynomials as Π-nets.

A sum of terms :math:`\sum_t c_t \prod_{i \in t} z_i` is grouped by what its products start with: all products
:math:`z_i z_j \cdot (\text{any column})` share one entry of the state, whose last gate is the linear form of their
coefficients. A quadratic polynomial of d columns so takes a state of size d, a cubic one of at most d (d + 1) / 2 + d.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from pinets.estimators.exact import TermFit
from pinets.estimators.kernel import RowFit
from pinets.layers import CCP
from pinets.polynomial import Polynomial, Step

__all__ = ["empty_network", "network_of", "network_of_rows", "network_of_terms"]


def empty_network(columns: int, outputs: int, rank: int, order: int, dtype: torch.dtype) -> Polynomial:
    """A network of the shape that :func:`network_of_terms` makes, with its weights still to be set."""

    def view() -> nn.Linear:
        return nn.utils.skip_init(nn.Linear, columns, rank, dtype=dtype)

    head = nn.utils.skip_init(nn.Linear, rank, outputs, dtype=dtype)
    return Polynomial(view(), [Step(view()) for _ in range(order - 1)], head).eval()


def network_of(fit: TermFit | RowFit, columns: int, dtype: torch.dtype) -> Polynomial:
    """The polynomial of a fit."""
    return network_of_terms(fit, columns, dtype) if isinstance(fit, TermFit) else network_of_rows(fit, dtype)


def network_of_terms(fit: TermFit, columns: int, dtype: torch.dtype) -> Polynomial:
    """The polynomial of a fit by terms."""
    outputs, order = len(fit.constant), fit.order
    prefixes: dict[tuple[int, ...], int] = {}
    places = []
    for term in fit.terms:
        prefix = term[:-1] or term
        places.append((prefixes.setdefault(prefix, len(prefixes)), term[-1] if len(term) > 1 else None))
    size = max(1, len(prefixes))
    views = np.zeros((order, size * outputs, columns))
    biases = np.zeros((order, size * outputs))
    biases[1:-1] = 1.0  # steps that a short product does not need multiply by one
    for prefix, position in prefixes.items():
        for step, column in enumerate(prefix):
            views[step, position::size, column] = 1.0
            biases[step, position::size] = 0.0
    head = np.kron(np.eye(outputs), np.ones(size))
    for (position, last), coefficient in zip(places, fit.coefficients, strict=True):
        at = position + size * np.arange(outputs)
        if order == 1:  # no gate carries the coefficients: the head does
            head[np.arange(outputs), at] = coefficient
        elif last is None:
            biases[-1, at] = coefficient
        else:
            views[-1, at, last] = coefficient
    network = empty_network(columns, outputs, size * outputs, order, dtype)
    for layer, weight, bias in zip(_views(network), views, biases, strict=True):
        _set(layer, weight, bias)
    _set(network.head, head, fit.constant)
    return network


def network_of_rows(fit: RowFit, dtype: torch.dtype) -> CCP:
    """The CCP of a fit by rows."""
    rows, columns = fit.factors[0].shape
    network = CCP(columns, len(fit.constant), rank=rows, order=fit.order, device="meta", dtype=dtype)
    network.to_empty(device="cpu")
    for layer, factor in zip(_views(network), fit.factors, strict=True):
        _set(layer, factor)
    _set(network.head, fit.coefficients.T, fit.constant)
    return network.eval()


def _views(network: Polynomial) -> list[nn.Module]:
    return [network.start, *(step.gate for step in network.steps)]


def _set(layer: Any, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))
