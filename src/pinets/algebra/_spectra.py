r"""Spectra of the interactions in a polynomial network, from its weights alone.

The terms of degree :math:`m` of an output are a symmetric tensor. It is known through its factors,
:math:`\sum_t w_t\,u_{t1} \otimes \dots \otimes u_{tm}`, and is never formed: for degree 2 the eigenvectors are found in
the span of the factors, for higher degrees components :math:`\lambda\,v \otimes \dots \otimes v` are found one after
the other by the power method, each on what the ones before it left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pinets.algebra._certify import require_polynomial
from pinets.algebra.domains.factored import Factored, FactoredDomain, TooManyTermsError
from pinets.algebra.enclosure import TooLargeError
from pinets.algebra.inputs import Inputs, check_inputs
from pinets.algebra.traced import Traced

__all__ = ["Spectrum", "spectra"]

_LIMIT = 30_000_000  # elements of a tensor of factors
_STARTS = 12  # starts of the power method for each component
_STEPS = 40


@dataclass(frozen=True)
class Spectrum:
    r"""Components of the terms of one degree, :math:`\sum_k \lambda_k (v_k^T z)^m` for each output.

    Attributes:
        degree: The degree m.
        values: :math:`\lambda`, of shape (outputs, components), the largest in absolute value first.
        vectors: :math:`v`, of unit length, of shape (outputs, components, elements of an input).
        exact: Whether all components together are the terms: always for degree 2 if none were left out.
    """

    degree: int
    values: Tensor
    vectors: Tensor
    exact: bool

    def __call__(self, z: Tensor, components: int | None = None) -> Tensor:
        """The sum of the first components of every output at inputs z: shape (batch, outputs)."""
        kept = slice(components)
        projected = torch.einsum("okd,nd->nok", self.vectors[:, kept], z.flatten(1).to(self.vectors))
        return (self.values[:, kept] * projected.pow(self.degree)).sum(2).to(z)

    @property
    def effective_rank(self) -> Tensor:
        r"""For every output, :math:`\exp(-\sum_k p_k \log p_k)` with :math:`p_k = |\lambda_k| / \sum_j |\lambda_j|`.

        >>> Spectrum(2, torch.tensor([[2.0, -2.0, 0.0]]), torch.zeros(1, 3, 5), True).effective_rank
        tensor([2.])
        """
        share = self.values.abs() / self.values.abs().sum(1, keepdim=True)
        return torch.special.entr(share).sum(1).exp()


def spectra(
    model: nn.Module | Traced,
    example: Inputs,
    *,
    degree: int = 2,
    components: int | None = None,
    outputs: Tensor | None = None,
    seed: int = 0,
) -> Spectrum:
    r"""The components of a network's terms of one degree.

    Args:
        model: A polynomial in evaluation mode (see :func:`pinets.algebra.certify`) that maps a batch of inputs to a
            batch of vectors, or a traced one.
        example: An input with a batch of one.
        degree: The degree of the terms, at least 2.
        components: How many to find for each output; all for degree 2, 16 for others if left out.
        outputs: Rows of weights of the outputs, to look at their sums and differences; each output itself if left out.
        seed: Seed of the starts of the power method.

    Example:
        >>> from pinets import CCP, orders
        >>> network, z = CCP(6, 3, rank=4, order=2).double(), torch.randn(5, 6).double()
        >>> found = spectra(network, z[:1])
        >>> torch.allclose(found(z), orders(network, z)[2])
        True
    """
    if degree < 2:
        raise ValueError(f"degree must be at least 2, got {degree}: the terms of degree 1 are a vector for each output")
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1, got {components}")
    forms, weights = _factors(model, example, degree)
    if outputs is not None:
        weights = weights @ outputs.to(weights).T
    left, sizes, _ = torch.linalg.svd(forms.flatten(0, 1).T, full_matrices=False)
    basis = left[:, : int((sizes > sizes[0] * 1e-12).sum())].T  # of the span of all forms, of shape (r, d)
    small = forms @ basis.T
    if degree == 2:
        values, vectors = _eigenvectors(small, weights)
        found = values.shape[1]
        kept = slice(components)
        return Spectrum(2, values[:, kept], vectors[:, kept] @ basis, components is None or components >= found)
    generator = torch.Generator().manual_seed(seed)
    parts = [_components(small, weight, components or 16, generator) for weight in weights.T]
    values, vectors = (torch.stack(part) for part in zip(*parts, strict=True))
    return Spectrum(degree, values, vectors @ basis, exact=False)


def _factors(model: nn.Module | Traced, example: Inputs, degree: int) -> tuple[Tensor, Tensor]:
    """The terms of a degree: forms of shape (terms, degree, d) and weights of shape (terms, outputs)."""
    (sample,) = check_inputs(example)
    traced = require_polynomial(model, sample)
    domain = FactoredDomain(sample.shape, _LIMIT)
    try:
        (out,) = traced.graph.run(domain, [domain.variable()], dtype=torch.float64)
    except TooManyTermsError as error:
        raise TooLargeError("the network is a sum of too many products of linear forms for its spectra") from error
    terms = out.terms if isinstance(out, Factored) else {}
    if degree not in terms:
        known = ", ".join(map(str, sorted(terms))) or "none"
        raise ValueError(f"the network has no terms of degree {degree}, but of {known}")
    forms, weights = terms[degree]
    return forms, weights.reshape(len(weights), -1)


def _eigenvectors(forms: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    left, right = forms.unbind(1)
    matrices = torch.einsum("to,ta,tb->oab", weights, left, right)
    values, vectors = torch.linalg.eigh((matrices + matrices.mT) / 2)
    order = values.abs().argsort(dim=1, descending=True)
    return values.gather(1, order), vectors.mT.gather(1, order[..., None].expand_as(vectors))


def _components(forms: Tensor, weights: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Components of one output, greedily: the largest of what is left."""
    degree, size = forms.shape[1:]
    values, vectors = [], []
    for _ in range(count):
        starts = torch.randn(_STARTS, size, dtype=forms.dtype, generator=generator)
        found = _power_method(forms, weights, torch.nn.functional.normalize(starts, dim=1))
        at = torch.einsum("nd,tmd->ntm", found, forms).prod(2) @ weights  # the term at each candidate
        best = at.abs().argmax()
        value, vector = at[best], found[best]
        if degree % 2 and value < 0:  # an odd power takes the sign
            value, vector = -value, -vector
        values.append(value)
        vectors.append(vector)
        forms = torch.cat([forms, vector.expand(1, degree, size)])
        weights = torch.cat([weights, -value[None]])
    order = torch.stack(values).abs().argsort(descending=True)
    return torch.stack(values)[order], torch.stack(vectors)[order]


def _power_method(forms: Tensor, weights: Tensor, v: Tensor) -> Tensor:
    """Unit vectors at which the term is locally extreme; the shift makes every step climb."""
    degree = forms.shape[1]
    for _ in range(_STEPS):
        projected = torch.einsum("nd,tmd->ntm", v, forms)
        gradient = torch.zeros_like(v)
        for axis in range(degree):
            others = projected[..., [other for other in range(degree) if other != axis]].prod(2)
            gradient = gradient + (others * weights) @ forms[:, axis]
        value = projected.prod(2) @ weights
        step = torch.where(value < 0, -1.0, 1.0)[:, None] * gradient
        shift = gradient.norm(dim=1, keepdim=True) * (degree - 1) / 2
        v = torch.nn.functional.normalize(step + shift * v, dim=1)
    return v
