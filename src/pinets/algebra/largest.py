r"""Find the largest monomials of coefficient tensors, also of those too large to form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from pinets.algebra.domains.dense import Pending, monomials_of, symmetrize
from pinets.algebra.monomials import Monomial

__all__ = ["largest_of_factors", "largest_of_pending", "largest_of_tensor", "merge"]

_LARGEST_FORM = 2**27  # elements of the bilinear form of a pending product
_PAIRS = list(itertools.combinations(range(4), 2))


def merge(candidates: list[list[Monomial]], k: int) -> list[Monomial]:
    """The ``k`` largest of several lists, without those that are zero."""
    there = [monomial for monomial in itertools.chain(*candidates) if monomial.coefficient]
    return sorted(there, key=lambda monomial: -abs(monomial.coefficient))[:k]


def largest_of_tensor(tensor: Tensor, k: int | None, output: int | None) -> list[Monomial]:
    """The ``k`` largest monomials (all that are not zero, if None) of a symmetric tensor of shape (out, d, ..., d)."""
    first, some = (0, tensor) if output is None else (output, tensor[output : output + 1])
    indices, values = monomials_of(some)
    flat = values.flatten()
    chosen = flat.nonzero().flatten() if k is None else flat.abs().topk(min(k, flat.numel())).indices
    rows, positions = first + chosen // len(indices), chosen % len(indices)
    return [
        Monomial(row, tuple(index), value)
        for row, index, value in zip(rows.tolist(), indices[positions].tolist(), flat[chosen].tolist(), strict=True)
    ]


def largest_of_pending(terms: list[Pending], features: int, degree: int, k: int) -> list[Monomial]:
    r"""The ``k`` largest monomials of a sum of products that are too large to form.

    A product is a bilinear form of a linear value :math:`L` and another value :math:`R` of degree :math:`n - 1`, whose
    coefficients are symmetric. The symmetric coefficient of :math:`z_{i_1} \cdots z_{i_n}` is the mean over which index
    belongs to :math:`L`. With all indices fixed but the least and the largest, these coefficients are a few matrix
    products, of which only the largest entries are kept.
    """
    largest = _Largest(k)
    for parts in zip(*(_slices(*_bilinear(term, features, degree), degree) for term in terms), strict=True):
        middle, lowest = parts[0][:2]
        values = parts[0][2] if len(parts) == 1 else torch.stack([part[2] for part in parts]).sum(0)
        largest.add_slice(values, middle, lowest)
    return largest.monomials()


def _slices(form: Tensor, other: Tensor, degree: int) -> Iterator[tuple[tuple[int, ...], int, Tensor]]:
    """For each choice M of all indices but the least i and the largest l: M, the least l, coefficients (out, i, l)."""
    outputs, features, _ = form.shape
    for middle in itertools.combinations_with_replacement(range(features), degree - 2):
        low, high = (middle[0] + 1, middle[-1]) if middle else (features, 0)  # i < low, l >= high
        least, most = form[:, :low], form[:, high:]
        values = least @ other[middle][high:].T  # L has the index i
        without_l = _at(other[:low], middle)
        values.baddbmm_(without_l.expand(outputs, -1, -1), most.transpose(1, 2))  # L has l
        for position, index in enumerate(middle):  # L has an index of the middle
            rest = middle[:position] + middle[position + 1 :]
            between = _at(other[:low], rest)[:, high:]
            values += torch.bmm(between, form[:, index].T.expand(len(between), -1, -1)).permute(2, 0, 1)
        values *= math.factorial(degree - 1) / math.prod(math.factorial(middle.count(index)) for index in {*middle})
        if middle:  # an index that repeats has fewer orders
            again = middle.count(middle[0]), middle.count(middle[-1])
            values[:, -1] /= 1 + again[0]
            values[:, :, 0] /= 1 + again[1]
            if middle[0] == middle[-1]:
                values[:, -1, 0] *= (1 + again[0]) / (2 + again[0])
        else:
            values = values.triu()
            values.diagonal(dim1=1, dim2=2).mul_(0.5)
        yield middle, high, values


def _at(tensor: Tensor, indices: tuple[int, ...]) -> Tensor:
    """``tensor[:, *indices]``."""
    for index in indices:
        tensor = tensor[:, index]
    return tensor


def _bilinear(term: Pending, features: int, degree: int) -> tuple[Tensor, Tensor]:
    """L contracted with the form, of shape (out, d, k), and R of shape (d, ..., d, k)."""
    linear, other = term.linear, term.other
    left, right = linear[0].numel(), other[0].numel()
    outputs = term.function(linear[0], other[0]).numel()
    if left * right * outputs > _LARGEST_FORM:
        raise ValueError(
            f"a product of states of {left} and {right} numbers is too large to search for monomials "
            f"(at most {_LARGEST_FORM:,} entries in its bilinear form)"
        )
    units_left = torch.eye(left, dtype=torch.float64).reshape(left, *linear.shape[1:])
    units_right = torch.eye(right, dtype=torch.float64).reshape(right, *other.shape[1:])
    form = torch.vmap(torch.vmap(term.function, (None, 0)), (0, None))(units_left, units_right)
    form = form.reshape(left, right, outputs)
    contracted = torch.einsum("dl,lro->odr", linear.reshape(features, left), form)
    symmetric = symmetrize(other.reshape(-1, right), features, degree - 1)
    return contracted, symmetric.reshape(*(features,) * (degree - 1), right)


def largest_of_factors(forms: Tensor, weights: Tensor, k: int) -> list[Monomial]:
    r"""The ``k`` largest monomials of :math:`\sum_t w_{to} \prod_{a=1}^4 u_{ta}^T z` for the outputs :math:`o`.

    The coefficient of :math:`z_i z_j z_k z_l` is a sum over the ways to give two of the four forms to :math:`i, j`, and
    the other two to :math:`k, l`. By Cauchy and Schwarz it is at most :math:`n_{ij} n_{kl}`, where :math:`n` is cheap
    to compute, and also at most :math:`n_{ik} n_{jl}` and :math:`n_{il} n_{jk}`. So if :math:`n_{ij}` is the largest
    of the six, then a coefficient above :math:`\tau` has the other five between :math:`\tau / n_{ij}` and
    :math:`n_{ij}`: few :math:`k, l` are left to try for each pair :math:`i, j`, and for most pairs none.

    Args:
        forms: Of shape (terms, 4, d).
        weights: Of shape (terms, outputs).
        k: How many.
    """
    forms = forms.transpose(0, 1)  # (4, terms, d)
    sizes = forms.norm(dim=2, keepdim=True).clamp(min=1e-300)
    forms = forms / sizes * sizes.log().mean(0, keepdim=True).exp()  # of one size, which makes the bounds tight
    largest = _Largest(k)
    bounds = [_pair_bounds(forms, weight) for weight in weights.T]
    for output in sorted(range(len(bounds)), key=lambda output: -float(bounds[output].max())):
        _search_pairs(forms, weights[:, output], bounds[output], output, largest)
    return largest.monomials()


def _pair_bounds(forms: Tensor, weight: Tensor) -> Tensor:
    """n, of shape (d, d): n_ij^2 sums |w_t| (u_a[i] u_b[j] + u_a[j] u_b[i])^2 over terms t and pairs of forms a, b."""
    size = weight.abs()[:, None]
    total = torch.zeros(forms.shape[2:] * 2, dtype=torch.float64)
    for a, b in _PAIRS:
        squares = (size * forms[a].square()).T @ forms[b].square()
        total += squares + squares.T + 2 * (size * forms[a] * forms[b]).T @ (forms[a] * forms[b])
    return total.clamp(min=0).sqrt() * (1 + 1e-9)


def _search_pairs(forms: Tensor, weight: Tensor, bound: Tensor, output: int, largest: _Largest) -> None:
    """Look for monomials of one output, at the pair of indices with the largest bound first."""
    features = forms.shape[2]
    first, second = torch.triu_indices(features, features)
    ordered, places = bound[first, second].sort(descending=True)
    for top, place in zip(ordered.tolist(), places.tolist(), strict=True):
        if top * top <= largest.threshold:
            return
        i, j = int(first[place]), int(second[place])
        low, high = torch.minimum(bound[i], bound[j]), torch.maximum(bound[i], bound[j])
        kept = ((low * top >= largest.threshold) & (high <= top)).nonzero().flatten()
        if not len(kept):
            continue
        these = forms[:, :, kept]
        given = {
            pair: (weight * (forms[pair[0], :, i] * forms[pair[1], :, j] + forms[pair[0], :, j] * forms[pair[1], :, i]))
            for pair in _PAIRS
        }
        half = torch.zeros(len(kept), len(kept), dtype=torch.float64)
        for a, b in _PAIRS:  # for k, l; the other two forms are given to i, j
            c, e = (form for form in range(4) if form not in (a, b))
            half += (given[c, e][:, None] * these[a]).T @ these[b]
        largest.add_pairs(half + half.T, (i, j), kept, output)


class _Largest:
    """The largest monomials seen so far."""

    def __init__(self, k: int) -> None:
        self.k, self.threshold = k, 0.0
        self.found: dict[tuple[int, tuple[int, ...]], float] = {}

    def add_slice(self, values: Tensor, middle: tuple[int, ...], lowest: int) -> None:
        """Consider coefficients of z_i z_middle z_l, of shape (out, i, l), where l counts from ``lowest``."""
        if self._all_below(values):
            return
        for (output, row, column), value in self._above(values):
            self.found[output, (row, *middle, lowest + column)] = value
        self._forget()

    def add_pairs(self, sums: Tensor, pair: tuple[int, int], kept: Tensor, output: int) -> None:
        """Consider monomials z_i z_j z_k z_l of one pair i, j and all k, l kept.

        Each sum is over all orders of the four indices, and so counts repeated indices several times.
        """
        if self._all_below(sums):
            return
        same = sum((kept == index).double() for index in pair)
        assert isinstance(same, Tensor)
        repeats = (1 + same[:, None]) * (1 + same + torch.eye(len(kept), dtype=torch.float64))
        values = (sums / (repeats * (2 if pair[0] == pair[1] else 1))).triu()
        for (row, column), value in self._above(values):
            self.found[output, tuple(sorted((*pair, int(kept[row]), int(kept[column]))))] = value
        self._forget()

    def _all_below(self, values: Tensor) -> bool:
        low, high = values.aminmax()
        return max(-low.item(), high.item()) <= self.threshold

    def _above(self, values: Tensor) -> list[tuple[tuple[int, ...], float]]:
        """The positions and values of the largest entries above the threshold."""
        sizes = values.flatten().abs()
        chosen = (sizes > self.threshold).nonzero().flatten()
        chosen = chosen[sizes[chosen].topk(min(self.k, len(chosen))).indices]
        positions = torch.stack(torch.unravel_index(chosen, values.shape), dim=1).tolist()
        return [(tuple(at), value) for at, value in zip(positions, values.flatten()[chosen].tolist(), strict=True)]

    def _forget(self) -> None:
        """Keep only the k largest."""
        self.found = dict(sorted(self.found.items(), key=lambda item: -abs(item[1]))[: self.k])
        if len(self.found) == self.k:
            self.threshold = min(map(abs, self.found.values()))

    def monomials(self) -> list[Monomial]:
        return [Monomial(output, indices, value) for (output, indices), value in self.found.items()]
