r"""Exact explanations of a polynomial's outputs: Shapley values, interaction indices, integrated gradients.

The game of an input :math:`x` is interventional: a coalition :math:`S` is worth :math:`v(S) = E_b\, G(x_S, b_{-S})`,
with :math:`b` drawn from background rows. For a monomial whose inputs belong to the players :math:`T`, with
:math:`X_k` and :math:`B_k` what player :math:`k` contributes to the product, the dividend of :math:`U \subseteq T` is

.. math:: d_U = E_b \prod_{k \in U} (X_k - B_k) \prod_{k \in T \setminus U} B_k

and the Shapley value of a player is :math:`\sum_{U \ni k} d_U / |U|`: a closed form, with no sampling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pinets.algebra._certify import require_polynomial
from pinets.algebra._expand import Expansion, expand
from pinets.algebra._interactions import all_groups, group_keys
from pinets.algebra.domains.dense import monomials_of
from pinets.algebra.domains.series import Series, SeriesDomain
from pinets.algebra.inputs import check_inputs
from pinets.algebra.traced import Traced

__all__ = ["Shapley", "integrated_gradients", "shapley"]

_CELLS = 4_000_000  # numbers in a chunk of monomials times rows


class Shapley:
    """Explanations of outputs, in closed form.

    Attributes:
        base: The mean output over the background, of shape (out,).
        values: The Shapley value of every player, of shape (rows, out, players). With ``base`` they add up to the
            output.
        players: How many players there are.
    """

    def __init__(self, expansion: Expansion, z: Tensor, background: Tensor, player_of: Tensor) -> None:
        self._expansion, self._z, self._background, self._player_of = expansion, z, background, player_of
        self.players = int(player_of.max()) + 1
        self.base = expansion(background).mean(0)
        self.values = self.interactions(1)

    def interactions(self, size: int) -> Tensor:
        r"""The Shapley interaction index :math:`\sum_{U \supseteq A} d_U / (|U| - |A| + 1)` of every group A of a size.

        Returns:
            A tensor of shape (rows, out, groups), the groups in the order of ``supports(size)``; for size 1 these are
            the Shapley values.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        groups = self.supports(size)
        keys = group_keys(groups, self.players)
        out = torch.zeros(len(self._z), len(self.base), len(groups), dtype=torch.float64)
        for coefficients, columns, runs in self._monomials():
            count = len(runs)
            if count < size:
                continue
            players = torch.stack([self._player_of[columns[:, run[0]]] for run in runs], dim=1)
            dividends = self._dividends(columns, runs)
            for kept in itertools.combinations(range(count), size):
                share = sum(
                    dividend / (len(subset) - size + 1)
                    for subset, dividend in dividends.items()
                    if set(kept) <= set(subset)
                )
                rows = torch.searchsorted(keys, group_keys(players[:, list(kept)], self.players))
                for output, values in enumerate(coefficients):
                    out[:, output].index_add_(1, rows, share * values)
        return out

    def supports(self, size: int) -> Tensor:
        """The groups of a size, of shape (groups, size)."""
        return all_groups(self.players, size)

    def _monomials(self) -> Iterator[tuple[Tensor, Tensor, list[list[int]]]]:
        """Coefficients (out, terms), columns (terms, degree) and the positions of each player, in chunks of a kind."""
        for degree in range(1, self._expansion.degree + 1):
            columns, values = monomials_of(self._expansion.coefficients[degree])
            used = values.abs().amax(0) > 0
            columns, values = columns[used], values[:, used]
            # columns of one player side by side
            players, order = self._player_of[columns].sort(dim=1, stable=True)
            columns = columns.gather(1, order)
            breaks = (players[:, 1:] != players[:, :-1]).long()
            pattern = (breaks * 2 ** torch.arange(degree - 1)).sum(1) if degree > 1 else breaks.sum(1)
            chunk = max(1, _CELLS // max(len(self._z), len(self._background)))
            for kind in pattern.unique().tolist():
                chosen = (pattern == kind).nonzero()[:, 0]
                cuts = [position + 1 for position in range(degree - 1) if kind >> position & 1]
                edges = [0, *cuts, degree]
                runs = [list(range(first, last)) for first, last in itertools.pairwise(edges)]
                for some in chosen.split(chunk):
                    yield values[:, some], columns[some], runs

    def _dividends(self, columns: Tensor, runs: list[list[int]]) -> dict[tuple[int, ...], Tensor]:
        """The dividend of every subset of the players, of shape (rows, terms)."""
        own = [_product(self._z, columns[:, run]) for run in runs]
        others = [_product(self._background, columns[:, run]) for run in runs]
        count, ones = len(runs), torch.ones(1, dtype=torch.float64)
        worth = {
            inside: math.prod((own[k] for k in inside), start=ones)
            * math.prod((others[k] for k in range(count) if k not in inside), start=ones).mean(0)
            for size in range(count + 1)
            for inside in itertools.combinations(range(count), size)
        }
        return {
            subset: sum(  # type: ignore[misc]
                (-1) ** (len(subset) - size) * worth[inside]
                for size in range(len(subset) + 1)
                for inside in itertools.combinations(subset, size)
            )
            for subset in worth
            if subset
        }


def _product(rows: Tensor, columns: Tensor) -> Tensor:
    return rows[:, columns].prod(2)


def shapley(
    model: nn.Module | Traced | Expansion,
    z: Tensor,
    background: Tensor,
    *,
    groups: Sequence[int] | None = None,
    memory: int = 2 * 1024**3,
) -> Shapley:
    """Interventional Shapley values and interaction indices of a polynomial network, exact.

    Args:
        model: A polynomial in evaluation mode, or its expansion.
        z: The inputs to explain, with a batch axis; more axes are flattened.
        background: Inputs that stand for an absent player, each as likely as the others.
        groups: For every input the number of its player, counted from zero, such as one for all indicators of a
            category; every input is a player of its own if left out.
        memory: The most bytes to use for coefficients, roughly.

    Example:
        >>> class Product(nn.Module):
        ...     def forward(self, z):
        ...         return z[:, :1] * z[:, 1:]
        >>> found = shapley(Product(), torch.tensor([[2.0, 3.0]]), torch.zeros(1, 2))
        >>> found.values[0, 0].tolist(), found.interactions(2)[0, 0].tolist()
        ([3.0, 3.0], [6.0])
    """
    (rows,), (others,) = check_inputs(z), check_inputs(background)
    expansion = model if isinstance(model, Expansion) else expand(model, rows[:1], memory=memory)
    flat, other = (each.detach().cpu().flatten(1).double() for each in (rows, others))
    for name, each in (("z", flat), ("background", other)):
        if each.shape[1] != expansion.features:
            raise ValueError(f"{name} must have {expansion.features} numbers a row, got {each.shape[1]}")
    player_of = torch.arange(expansion.features) if groups is None else torch.as_tensor(list(groups))
    if len(player_of) != expansion.features or not torch.equal(
        player_of.unique(), torch.arange(int(player_of.max()) + 1)
    ):
        raise ValueError(
            f"groups must give each of {expansion.features} inputs the number of its player, 0, 1, ... without gaps; "
            f"got {player_of.tolist()}"
        )
    return Shapley(expansion, flat, other, player_of)


@torch.inference_mode(False)  # which turns gradients on
def integrated_gradients(model: nn.Module | Traced, z: Tensor, baseline: Tensor) -> Tensor:
    r"""Integrated gradients of a polynomial network, exact.

    .. math:: (x_i - b_i) \int_0^1 \partial_i G(b + t (x - b)) \, dt

    Along the line the gradient is a polynomial of degree :math:`N - 1` in :math:`t`, so Gauss-Legendre quadrature with
    :math:`\lceil N / 2 \rceil` nodes has no error.

    Args:
        model: A polynomial in evaluation mode with outputs of shape (batch, out), or one traced with one row.
        z: The inputs to explain, with a batch axis.
        baseline: One input without a batch axis, or several with one, over which the result is averaged.

    Returns:
        A tensor of shape (batch, out, ...) in double precision, whose sum over the input is the difference of outputs.

    Example:
        >>> from pinets import PowerSum
        >>> integrated_gradients(PowerSum(3), torch.tensor([[2.0]]), torch.zeros(1)).round(decimals=9)
        tensor([[[14.]]], dtype=torch.float64)
    """
    (rows,), (starts,) = check_inputs(z), check_inputs(baseline)
    traced = require_polynomial(model, rows[:1])
    certificate = traced.certificate

    def evaluate(row: Tensor) -> Tensor:
        """The outputs by the algebra: torch takes derivatives through ``detach`` and ``no_grad`` for zero."""
        (out,) = traced.graph.run(SeriesDomain(0), [Series.of({0: row[None]})], torch.float64, gradients=True)
        found: Tensor = out[0].flatten()
        return found

    degree = certificate.bound if certificate.degree is None else certificate.degree
    rows, starts = (each.detach().cpu().double() for each in (rows, starts))
    if rows.shape[1:] not in (starts.shape, starts.shape[1:]):
        raise ValueError(f"baseline must be inputs of shape {tuple(rows.shape[1:])}, got shape {tuple(starts.shape)}")
    starts = starts.reshape(-1, *rows.shape[1:])
    nodes, weights = _gauss_legendre(max(1, math.ceil((degree or 1) / 2)))
    total: Tensor | None = None
    for start in starts:
        difference = rows - start
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            point = (start + node * difference).requires_grad_()
            outputs = torch.vmap(evaluate)(point)
            gradients = [torch.autograd.grad(output.sum(), point, retain_graph=True)[0] for output in outputs.T]
            part = weight * torch.stack(gradients, dim=1) * difference[:, None]
            total = part if total is None else total + part
    assert total is not None
    return total / len(starts)


def _gauss_legendre(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1], from the eigenvectors of the recurrence of Legendre's polynomials."""
    k = torch.arange(1, nodes, dtype=torch.float64)
    beside = k / (4 * k**2 - 1).sqrt()
    values, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    return (values + 1) / 2, vectors[0] ** 2
