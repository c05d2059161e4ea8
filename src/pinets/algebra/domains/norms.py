r"""Bounds on sums of squares of linear forms over a box, tighter than the sum of the single maxima.

Sixty linear forms of a box of hundreds of inputs have their largest values at sixty different corners. What they can
reach together is bounded by the largest eigenvalue of their Gram matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pinets.algebra.domains.rounding import OURS

__all__ = ["largest_sum_of_squares", "spectral_norm"]

_SQUARINGS = 6  # leaves at most n ** (1 / 64) between the bound and the norm


def largest_sum_of_squares(forms: Tensor, weights: Tensor) -> Tensor:
    r"""Bound :math:`\max_{|e_i| \le 1} \sum_k w_{ok} (a_k^T e)^2` from above, for every row of weights.

    For any positive :math:`d`, the sum is at most :math:`\lambda_{\max}(W^{1/2} A^T D^{-1} A W^{1/2}) \sum_i d_i`. The
    best :math:`d` is :math:`|a|` for a single form, and :math:`a^2` for forms that have no input in common: both are
    tried, beside the sum of the single maxima.

    Args:
        forms: The coefficients :math:`a_k`, of shape (inputs, forms).
        weights: Not negative, of shape (outputs, forms).

    Example:
        >>> forms = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)  # each at most 2, but not both
        >>> float(largest_sum_of_squares(forms, torch.ones(1, 2, dtype=torch.float64)))
        4.0...
    """
    inputs = forms.shape[0]
    single = forms.abs().sum(0) * (1 + OURS.gamma(inputs))
    best = (weights * single.square()).sum(1)
    energy = forms.square().sum(1)
    root = weights.sqrt()
    for divisor in (energy.sqrt(), energy):
        d = divisor + divisor.sum() * 1e-12 + 1e-200  # an input without influence must not be divided by
        scaled = forms / d.sqrt()[:, None]
        gram = scaled.T @ scaled
        error = OURS.gamma(inputs + 2) * (weights * scaled.square().sum(0)).sum(1)  # at most of the trace
        norm = spectral_norm(root[:, :, None] * gram * root[:, None, :]) + error
        best = torch.minimum(best, norm * d.sum())
    return best * (1 + OURS.gamma(inputs + forms.shape[1]))


def spectral_norm(matrices: Tensor) -> Tensor:
    r"""Bound the largest singular value of matrices of shape (..., n, n) from above, rounding included.

    :math:`\|M\|^2 = \|M^T M\|`, again and again; the Frobenius norm bounds the last one, and its excess vanishes with
    the roots taken on the way back.
    """
    size = matrices.shape[-1]
    error = OURS.gamma(size * size + size)
    scales = []
    for _ in range(_SQUARINGS):
        scale = matrices.square().sum((-2, -1)).sqrt() * (1 + error) + 1e-250
        scales.append(scale)
        matrices = matrices / scale[..., None, None]
        matrices = matrices.mT @ matrices
    bound = matrices.square().sum((-2, -1)).sqrt() * (1 + error)
    for scale in reversed(scales):
        bound = scale * (bound + error).sqrt() * (1 + error)
    return bound
