r"""Write fitted polynomials as Π-nets.

A sum of terms :math:`\sum_t c_t \prod_{i \in t} z_i` is grouped by what its products start with: all products
:math:`z_i z_j \cdot (\text{any column})` share one entry of the state, whose last gate is the linear form of their
coefficients. A quadratic polynomial of d columns so takes a state of size d, a cubic one of at most d (d + 1) / 2 + d.
"""

from __future__ import annotations

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
    head = np.zeros((outputs, size * outputs))
    for output in range(outputs):
        head[output, output * size : (output + 1) * size] = 1.0
    if order == 1:  # no gate carries the coefficients: the head does
        for (position, _), coefficient in zip(places, fit.coefficients, strict=True):
            for output in range(outputs):
                head[output, output * size + position] = coefficient[output]
    else:
        for (position, last), coefficient in zip(places, fit.coefficients, strict=True):
            for output in range(outputs):
                if last is None:
                    biases[-1, output * size + position] = coefficient[output]
                else:
                    views[-1, output * size + position, last] = coefficient[output]
    network = empty_network(columns, outputs, size * outputs, order, dtype)
    layers = [network.start, *(step.gate for step in network.steps)]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, views, biases, strict=True):
            layer.weight.copy_(torch.from_numpy(weight))  # type: ignore[operator, union-attr]
            layer.bias.copy_(torch.from_numpy(bias))  # type: ignore[operator, union-attr]
        network.head.weight.copy_(torch.from_numpy(head))  # type: ignore[operator, union-attr]
        network.head.bias.copy_(torch.from_numpy(fit.constant))  # type: ignore[operator, union-attr]
    return network


def network_of_rows(fit: RowFit, dtype: torch.dtype) -> CCP:
    """The CCP of a fit by rows."""
    rows, columns = fit.factors[0].shape
    network = CCP(columns, len(fit.constant), rank=rows, order=fit.order, device="meta", dtype=dtype)
    network.to_empty(device="cpu")
    with torch.no_grad():
        for layer, factor in zip([network.start, *(step.gate for step in network.steps)], fit.factors, strict=True):
            layer.weight.copy_(torch.from_numpy(factor))  # type: ignore[operator, union-attr]
        network.head.weight.copy_(torch.from_numpy(fit.coefficients.T.copy()))  # type: ignore[operator, union-attr]
        network.head.bias.copy_(torch.from_numpy(fit.constant))  # type: ignore[operator, union-attr]
    return network.eval()
