"""Write a network out as a polynomial: its coefficients and largest monomials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pinets.algebra._certify import require_polynomial
from pinets.algebra.domains.dense import Dense, DenseDomain, symmetrize
from pinets.algebra.domains.factored import Factored, FactoredDomain, TooManyTermsError
from pinets.algebra.inputs import check_inputs, example_for
from pinets.algebra.largest import largest_of_factors, largest_of_pending, largest_of_tensor, merge
from pinets.algebra.monomials import Monomial, Table, monomial_table, write_out
from pinets.algebra.traced import Traced

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Expansion", "Monomial", "expand"]


class Coefficients(dict[int, Tensor]):
    """The symmetric coefficient tensors by degree. Asking for one that was too large to form raises an error."""

    def __init__(self, tensors: dict[int, Tensor], too_large: dict[int, str]) -> None:
        super().__init__(tensors)
        self._too_large = too_large

    def __missing__(self, degree: int) -> Tensor:
        raise ValueError(self._too_large[degree])


class Expansion:
    r"""A network written as :math:`G(z) = \sum_n W^{[n]} z \cdots z`, the paper's equation 2.

    Attributes:
        coefficients: ``coefficients[n]`` is :math:`W^{[n]}`, symmetric in its inputs, of shape ``(out, d, ..., d)`` in
            double precision; inputs and outputs of more than one axis are flattened. ``coefficients[0]`` is
            :math:`\beta`.
        degree: The degree :math:`N`.
    """

    def __init__(
        self,
        coefficients: Coefficients,
        degree: int,
        features: int,
        *,
        kept: int | None = None,
        largest: list[Monomial] | None = None,
    ) -> None:
        self.coefficients, self.degree, self.features = coefficients, degree, features
        self._kept, self._largest = kept, largest or []  # None: all monomials are in the coefficients

    def __call__(self, z: Tensor) -> Tensor:
        """Evaluate the polynomial at inputs of shape (batch, d), or of the network's own with a batch axis."""
        if not isinstance(z, Tensor) or z.ndim < 2 or z[:1].numel() != self.features * len(z[:1]):
            got = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"inputs must be a tensor with a batch axis and {self.features} numbers a row, got {got}")
        flat = z.detach().cpu().flatten(1).double()
        out = torch.zeros(len(flat), len(self.coefficients[0]), dtype=torch.float64)
        for degree in range(self.degree + 1):
            term = self.coefficients[degree].expand(len(flat), *self.coefficients[degree].shape)
            for _ in range(degree):
                term = torch.einsum("b...i,bi->b...", term, flat)
            out = out + term
        return out

    def top(self, k: int, output: int | None = None) -> Table[Monomial]:
        """The ``k`` monomials with the largest coefficients, of one output or of all; fewer if the others are zero.

        >>> from pinets import PowerSum
        >>> expand(PowerSum(3), torch.zeros(1, 1)).top(3)
        output  coefficient  monomial
             0           +1        z0
             0           +1      z0^2
             0           +1      z0^3
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if output is not None:
            self._require_output(output)
        if self._kept is not None:
            found = [monomial for monomial in self._largest if output in (None, monomial.output)]
            if k > len(found) and not self._complete:
                whose = "" if output is None else f" of output {output}"
                raise ValueError(f"only the {self._kept} largest were kept, so the {k} largest{whose} are not known")
            return monomial_table(found[:k])
        candidates = [largest_of_tensor(self.coefficients[degree], k, output) for degree in range(1, self.degree + 1)]
        return monomial_table(merge(candidates, k))

    @property
    def _complete(self) -> bool:
        """Whether all monomials were kept."""
        return self._kept is None or len(self._largest) < self._kept

    def _require_output(self, output: int) -> None:
        outputs = len(self.coefficients[0])
        if not 0 <= output < outputs:
            raise ValueError(f"output must be from 0 to {outputs - 1}, got {output}")

    def to_numpy(self) -> list[np.ndarray[Any, Any]]:
        """The coefficient tensors of degree 0, 1, ..., N as arrays."""
        return [self.coefficients[degree].numpy() for degree in range(self.degree + 1)]

    def to_sympy(self, symbols: list[Any] | None = None) -> list[Any]:
        """One SymPy polynomial for every output, in ``z0, z1, ...`` or the symbols given."""
        import sympy

        names = symbols or list(sympy.symbols(f"z0:{self.features}"))
        if len(names) != self.features:
            raise ValueError(f"{self.features} inputs need as many symbols, got {len(names)}")
        out = []
        for output in range(len(self.coefficients[0])):
            terms = [sympy.Float(self.coefficients[0][output].item())]
            for degree in range(1, self.degree + 1):
                for monomial in largest_of_tensor(self.coefficients[degree], None, output):
                    factors = [names[index] for index in monomial.indices]
                    terms.append(sympy.Float(monomial.coefficient) * sympy.prod(factors))
            out.append(sympy.Add(*terms))
        return out

    def latex(self, output: int = 0, *, top: int = 12, digits: int = 3) -> str:
        r"""One output in LaTeX, the largest monomials first, with dots in place of those left out.

        >>> from pinets import PowerSum
        >>> expand(PowerSum(2), torch.zeros(1, 1)).latex()
        'z_{0} + z_{0}^{2}'
        """
        self._require_output(output)
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        if self._kept is None:
            found: list[Monomial] = self.top(top + 1, output)
        else:
            found = [monomial for monomial in self._largest if monomial.output == output]
        constant = self.coefficients[0][output].item() if 0 in self.coefficients else 0.0
        more = len(found) > top or not self._complete
        return write_out(constant, found[:top], digits=digits, more=more)

    def __repr__(self) -> str:
        return f"Expansion(degree={self.degree}, features={self.features}, outputs={len(self.coefficients[0])})"


def expand(
    model: nn.Module | Traced, example: Tensor | None = None, *, top: int | None = None, memory: int = 2 * 1024**3
) -> Expansion:
    """Write a polynomial network out: its exact coefficients, in double precision.

    Args:
        model: A polynomial in evaluation mode (see :func:`pinets.algebra.certify`), or one traced with one row.
        example: An input with a batch axis, for its shape; may be left out if the first layer is an ``nn.Linear``.
        top: Keep only this many monomials, those with the largest coefficients. Coefficient tensors that do not fit
            into memory are then searched, and never formed.
        memory: The most bytes to use, roughly.

    Example:
        >>> from pinets import CCP
        >>> model = CCP(3, 2, rank=4, order=2)
        >>> expansion = expand(model)
        >>> expansion.coefficients[2].shape
        torch.Size([2, 3, 3])
        >>> z = torch.randn(5, 3)
        >>> torch.allclose(expansion(z), model(z).double(), atol=1e-5)
        True
    """
    if top is not None and top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    row = example if isinstance(model, Traced) else check_inputs(example_for(model, example)[:1])
    traced = require_polynomial(model, row)
    sample, graph = traced.require_one_row("expand"), traced.graph
    if len(graph.outputs) != 1:
        raise ValueError(f"a network with one output tensor can be expanded, this one has {len(graph.outputs)}")
    features, limit = sample.numel(), memory // 4 // 8  # numbers in a tensor: a few tensors are alive at a time
    variable = torch.eye(features, dtype=torch.float64).reshape(features, *sample.shape)
    (out,) = graph.run(DenseDomain(features, limit), [Dense.of({1: variable})], dtype=torch.float64)
    if not isinstance(out, Dense):
        raise ValueError("the output does not depend on the input")
    degree = max(out.degrees, default=0)
    tensors: dict[int, Tensor] = {}
    too_large: dict[int, str] = {}
    candidates: list[list[Monomial]] = []
    for n in range(degree + 1):
        size = out.zero.numel() * features**n
        if n not in out.lost and (size <= limit or n not in out.pending):
            tensors[n] = _tensor(out, features, n)
            if top is not None and n > 0:
                candidates.append(largest_of_tensor(tensors[n], top, None))
            continue
        if top is None:
            raise ValueError(
                f"the {size:,} coefficients of degree {n} do not fit into {memory:,} bytes: allow more (memory, "
                f"--memory), or ask for the largest monomials only (top, --top)"
            )
        too_large[n] = f"the {size:,} coefficients of degree {n} were searched, not kept"
        if n in out.pending and n not in out.coefficients and n not in out.lost:
            candidates.append(largest_of_pending(out.pending[n], features, n, top))
        else:
            candidates.append(_search_factors(traced, n, top, limit))
    while degree > 0 and degree in tensors and not tensors[degree].any():
        del tensors[degree]
        degree -= 1
    largest = None if top is None else merge(candidates, top)
    return Expansion(Coefficients(tensors, too_large), degree, features, kept=top, largest=largest)


def _search_factors(traced: Traced, degree: int, top: int, limit: int) -> list[Monomial]:
    """The largest monomials of a degree whose terms do not even fit into memory as products of two tensors."""
    (sample,) = traced.example
    count = math.comb(sample.numel() + degree - 1, degree)
    why = f"the {count:,} monomials of degree {degree} in {sample.numel()} inputs cannot be searched"
    if degree != 4:
        raise ValueError(f"{why} within the memory allowed (memory, --memory); beyond it, degree 4 can be")
    domain = FactoredDomain(sample.shape, limit)
    try:
        (out,) = traced.graph.run(domain, [domain.variable()], dtype=torch.float64)
    except TooManyTermsError as error:
        raise ValueError(f"{why}: the network is not a sum of few products of linear forms") from error
    assert isinstance(out, Factored)
    if degree not in out.terms:  # all of them vanish
        return []
    forms, weights = out.terms[degree]
    return largest_of_factors(forms, weights.flatten(1), top)


def _tensor(out: Dense, features: int, degree: int) -> Tensor:
    """The symmetric coefficient tensor of one degree, of shape (out, d, ..., d)."""
    flat = torch.zeros(features**degree, out.zero.numel(), dtype=torch.float64)
    if degree in out.coefficients:
        flat += out.coefficients[degree].flatten(1)
    for term in out.pending.get(degree, []):
        every_pair = torch.vmap(torch.vmap(term.function, (None, 0)), (0, None), chunk_size=math.ceil(features / 16))
        flat += every_pair(term.linear, term.other).reshape(flat.shape)
    symmetric = symmetrize(flat, features, degree)
    return symmetric.T.reshape(-1, *(features,) * degree).contiguous()
