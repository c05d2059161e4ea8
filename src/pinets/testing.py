"""Assertions for your own tests: a network is a polynomial, computes the same function, or keeps the variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets.algebra import certify, orders
from pinets.algebra.inputs import Inputs, check_inputs

__all__ = ["assert_polynomial", "assert_same_function", "assert_variance_preserved"]


def assert_polynomial(model: nn.Module, example: Inputs, *, degree: int | None = None) -> None:
    """Assert that a network is a polynomial of its input in evaluation mode, of exactly the given degree.

    >>> from pinets import NCP
    >>> assert_polynomial(NCP(4, 2, rank=3, order=3), torch.randn(2, 4), degree=3)
    """
    certificate = certify(model, example)
    if not certificate.polynomial:
        raise AssertionError(str(certificate))
    if degree is not None and certificate.degree != degree:
        raise AssertionError(f"expected a polynomial of degree {degree}, got {certificate}")


def assert_same_function(first: nn.Module, second: nn.Module, inputs: Inputs, *, tolerance: float = 0.0) -> None:
    """Assert that two networks have equal outputs in evaluation mode, up to the tolerance.

    Outputs are tensors, or containers of tensors. NaN equals nothing.

    >>> layer = nn.Linear(3, 3)
    >>> assert_same_function(layer, nn.Sequential(layer), torch.randn(2, 3))
    """
    values = check_inputs(inputs)
    with evaluating(first), evaluating(second), torch.no_grad():
        # copies: a network may write into its inputs
        outputs = [network(*(value.clone() for value in values)) for network in (first, second)]
    torch.testing.assert_close(*outputs, rtol=0, atol=tolerance, check_dtype=False)


def assert_variance_preserved(
    model: nn.Module, z: Tensor, *, factor: float = 2.0, min_share: float | None = None
) -> None:
    """Assert that the output's variance is within a factor of the input's.

    Args:
        model: A freshly initialised network.
        z: A batch of inputs; a large one, since high degrees have heavy tails.
        factor: The largest allowed ratio of the variances.
        min_share: The least share of the variance for each degree from 1 on; not checked by default.

    >>> from pinets import CCP
    >>> z = torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
    >>> assert_variance_preserved(CCP(64, 64, rank=64, order=4), z, min_share=0.01)
    """
    check_inputs(z)
    with evaluating(model), torch.no_grad():
        before, after = z.var().item(), model(z.clone()).var().item()
    if not before / factor <= after <= before * factor:
        raise AssertionError(
            f"the output's variance is {after:.3g}, the input's {before:.3g}: more than a factor of {factor:g} apart"
        )
    if min_share is not None:
        parts = orders(model, z)[1:].flatten(1).var(dim=1)
        shares = (parts / parts.sum()).tolist()
        for degree, share in enumerate(shares, start=1):
            if not share >= min_share:
                raise AssertionError(f"degree {degree} carries {share:.2g} of the variance, less than {min_share:g}")
