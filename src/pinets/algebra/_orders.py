"""The contribution of every degree to an output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets.algebra._certify import require_polynomial
from pinets.algebra.domains.series import Series, SeriesDomain
from pinets.algebra.inputs import Inputs, check_inputs
from pinets.algebra.traced import Traced

__all__ = ["orders"]


def orders(model: nn.Module | Traced, z: Inputs) -> Tensor:
    r"""Split the output of a polynomial network into the exact contribution of every degree.

    With :math:`G(z) = \sum_n G_n(z)` and :math:`G_n` homogeneous of degree :math:`n`, returns
    :math:`G_0(z), \ldots, G_N(z)`, stacked along a new first axis. Their sum is :math:`G(z)`, so if terms cancel up to
    rounding, the rounding error is among them. One pass carries power series in :math:`t` for the input :math:`t z`.

    Args:
        model: A polynomial in evaluation mode (see :func:`pinets.algebra.certify`) with one output tensor, or a traced
            one.
        z: The input, or a tuple of inputs; for a traced network, of the shapes it was traced with.

    Example:
        >>> from pinets import PowerSum
        >>> orders(PowerSum(3), torch.tensor([2.0]))[:, 0]
        tensor([0., 2., 4., 8.])
    """
    inputs = check_inputs(z)
    traced = require_polynomial(model, inputs)
    certificate = traced.certificate
    assert certificate.bound is not None
    outputs = traced.graph.run(SeriesDomain(certificate.bound), [Series.of({1: value.cpu()}) for value in inputs])
    if len(outputs) != 1:
        raise ValueError(f"orders needs a network with one output, got {len(outputs)}")
    if not isinstance(outputs[0], Series):
        raise ValueError("orders needs an output that depends on the input, and this one is constant")
    remaining = [degree for degree, term in outputs[0].coefficients.items() if term.any()]  # rounding errors included
    highest = certificate.bound if certificate.degree is None else max(certificate.degree, *remaining, 0)
    return torch.stack([outputs[0][degree] for degree in range(highest + 1)]).to(inputs[0].device)
