"""How much of an output's variance each input, and each group of inputs, accounts for: Sobol indices in closed form."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pinets.algebra._expand import Expansion, expand
from pinets.algebra.inputs import check_inputs
from pinets.algebra.monomials import Table, variables
from pinets.algebra.traced import Traced

__all__ = ["Interaction", "Interactions", "Normal", "Uniform", "interactions"]

_SHOWN = 10  # groups of inputs that are printed


@dataclass(frozen=True)
class Uniform:
    """An input uniform between ``low`` and ``high``; its orthogonal polynomials are Legendre's."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a uniform input needs finite low < high, got {self.low} and {self.high}")

    @property
    def center_and_scale(self) -> tuple[float, float]:
        return (self.low + self.high) / 2, (self.high - self.low) / 2

    @staticmethod
    def recurrence(degree: int) -> list[tuple[float, float]]:
        """(a_k, b_k) for k = 0, 1, ..., degree in x p_k = p_(k+1) + a_k p_k + b_k p_(k-1), for monic polynomials."""
        return [(0.0, k * k / (4 * k * k - 1)) for k in range(degree + 1)]


@dataclass(frozen=True)
class Normal:
    """A normal input; its orthogonal polynomials are Hermite's."""

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise ValueError(f"a normal input needs a finite mean and std > 0, got {self.mean} and {self.std}")

    @property
    def center_and_scale(self) -> tuple[float, float]:
        return self.mean, self.std

    @staticmethod
    def recurrence(degree: int) -> list[tuple[float, float]]:
        """(a_k, b_k) for k = 0, 1, ..., degree in x p_k = p_(k+1) + a_k p_k + b_k p_(k-1), for monic polynomials."""
        return [(0.0, float(k)) for k in range(degree + 1)]


@dataclass(frozen=True)
class Empirical:
    """An input that takes each of the given values equally often; orthogonal polynomials come from their moments."""

    values: Tensor

    @property
    def center_and_scale(self) -> tuple[float, float]:
        deviation = self.values.std(correction=0).item()
        return self.values.mean().item(), deviation if deviation > 0 else 1.0

    def recurrence(self, degree: int) -> list[tuple[float, float]]:
        """(a_k, b_k) for k = 0, 1, ..., degree; zero from where there are fewer different values than degrees."""
        center, scale = self.center_and_scale
        x = (self.values - center) / scale
        before, now = torch.zeros_like(x), torch.ones_like(x)
        found: list[tuple[float, float]] = []
        norm_before = 1.0
        for k in range(degree + 1):
            norm = (now * now).mean().item()
            if norm <= 1e-12 * norm_before:
                return found + [(0.0, 0.0)] * (degree + 1 - k)
            a, b = (x * now * now).mean().item() / norm, norm / norm_before if k else 0.0
            found.append((a, b))
            before, now, norm_before = now, (x - a) * now - b * before, norm
        return found


Marginal = Uniform | Normal | Empirical


@dataclass(frozen=True)
class Interaction:
    """The share of one output's variance that the inputs named account for together, beyond what fewer of them do."""

    output: int
    inputs: tuple[int, ...]
    share: float

    def __repr__(self) -> str:
        return f"output {self.output}: {100 * self.share:.3g} % of the variance by {variables(self.inputs)}"


class Interactions:
    """The decomposition of variance (ANOVA) of a polynomial with independent inputs.

    Attributes:
        mean: The mean of every output.
        variance: The variance of every output; where it is zero, all indices are NaN.
        supports: For every size s, the groups of s inputs, of shape (groups, s).
    """

    def __init__(self, mean: Tensor, parts: dict[int, Tensor], supports: dict[int, Tensor], features: int) -> None:
        self.mean, self.supports, self.features = mean, supports, features
        self.variance = sum((part.sum(1) for part in parts.values()), torch.zeros_like(mean))
        self._shares = {size: part / self.variance[:, None] for size, part in parts.items()}

    def of_size(self, size: int) -> Tensor:
        """The indices of all groups of one size, of shape (out, groups), in the order of ``supports[size]``."""
        if not self._shares:
            raise ValueError("the polynomial is constant: there are no groups of inputs")
        if size not in self._shares:
            raise ValueError(f"groups have from 1 to {max(self._shares)} inputs here, got {size}")
        return self._shares[size]

    def index(self, *inputs: int) -> Tensor:
        """The Sobol index of one group of inputs, for every output."""
        for value in inputs:
            if not 0 <= value < self.features:
                raise ValueError(f"inputs are numbered from 0 to {self.features - 1}, got {value}")
        group = sorted(set(inputs))
        if len(group) not in self._shares:
            return torch.zeros_like(self.mean)  # more inputs than the degree: no such interaction
        match = (self.supports[len(group)] == torch.tensor(group)).all(1).nonzero().item()
        return self._shares[len(group)][:, int(match)]

    @property
    def first(self) -> Tensor:
        """First-order indices: what each input accounts for alone, of shape (out, d)."""
        return self.of_size(1)

    @property
    def total(self) -> Tensor:
        """Total indices: what each input accounts for with any others, of shape (out, d)."""
        out = torch.zeros(len(self.mean), self.features, dtype=torch.float64)
        for size, shares in self._shares.items():
            for position in range(size):
                out.index_add_(1, self.supports[size][:, position], shares)
        return out

    def strongest(self, k: int, *, size: int = 2, output: int | None = None) -> Table[Interaction]:
        """The ``k`` largest indices among groups of one size, of one output or of all."""
        shares = self.of_size(size)
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if output is not None and not 0 <= output < len(shares):
            raise ValueError(f"output must be from 0 to {len(shares) - 1}, got {output}")
        rows = range(len(shares)) if output is None else [output]
        found = [
            Interaction(row, tuple(self.supports[size][int(position)].tolist()), float(value))
            for row in rows
            for value, position in zip(*shares[row].topk(min(k, shares.shape[1])), strict=True)
        ]
        return _table(sorted(found, key=lambda interaction: -interaction.share)[:k])

    def __repr__(self) -> str:
        outputs, sizes = len(self.mean), list(self._shares)
        head = f"the variance of {outputs} output{'s' if outputs > 1 else ''} in {self.features} inputs"
        if not sizes or not (self.variance > 0).any():
            return f"{head}: none"
        found = [interaction for size in sizes for interaction in self.strongest(_SHOWN, size=size)]
        known = [interaction for interaction in found if interaction.share > 0]  # NaN where there is no variance
        shown = sorted(known, key=lambda interaction: -interaction.share)[:_SHOWN]
        return f"{head}, the largest shares first:\n{_table(shown)}"


def _table(found: list[Interaction]) -> Table[Interaction]:
    columns: dict[str, Callable[[Interaction], str]] = {
        "output": lambda interaction: str(interaction.output),
        "share": lambda interaction: f"{100 * interaction.share:.2f} %",
        "inputs": lambda interaction: variables(interaction.inputs),
    }
    return Table(found, columns)


def interactions(
    model: nn.Module | Traced | Expansion,
    example: Tensor | None = None,
    *,
    marginals: Marginal | Sequence[Marginal] | Tensor | None = None,
    memory: int = 2 * 1024**3,
) -> Interactions:
    r"""Sobol indices of every order, exact, for independent inputs.

    The polynomial is rewritten in products of orthogonal polynomials of the inputs, :math:`\sum_\alpha c_\alpha
    \prod_i p_{\alpha_i}(z_i)`. Its variance is :math:`\sum_{\alpha \ne 0} c_\alpha^2 \prod_i \|p_{\alpha_i}\|^2`, and
    the terms that involve exactly the inputs of a group are that group's part of it.

    Args:
        model: A polynomial in evaluation mode, or its expansion.
        example: An input with a batch axis, for its shape (see :func:`pinets.algebra.expand`).
        marginals: The distribution of the inputs, one for all or one for each: :class:`Uniform` (between -1 and 1 if
            nothing is said) or :class:`Normal`; or a tensor of data, of shape (rows, d), for columns that are
            distributed as in the data and independent of each other.
        memory: The most bytes to use for coefficients, roughly.

    Example:
        >>> class Product(nn.Module):
        ...     def forward(self, z):
        ...         return z[:, :1] + z[:, :1] * z[:, 1:]
        >>> found = interactions(Product(), torch.zeros(1, 2), marginals=Normal())
        >>> [round(found.index(*group).item(), 6) for group in ((0,), (1,), (0, 1))]
        [0.5, 0.0, 0.5]
        >>> found
        the variance of 1 output in 2 inputs, the largest shares first:
        output    share  inputs
             0  50.00 %      z0
             0  50.00 %   z0 z1
    """
    expansion = model if isinstance(model, Expansion) else expand(model, example, memory=memory)
    features, degree = expansion.features, expansion.degree
    if marginals is None and example is not None and bool((example.abs() > 1).any()):
        warnings.warn(
            "the inputs are taken to be uniform between -1 and 1, and the example lies outside: give marginals, or "
            "the data as marginals=X",
            stacklevel=2,
        )
    each = _one_for_each(marginals, features)
    steps = -2 if all(isinstance(marginal, (Uniform, Normal)) for marginal in each) else -1  # even and odd stay apart
    standard = _standardize([expansion.coefficients[n] for n in range(degree + 1)], each)
    to_orthogonal, norms = _basis_change(each, degree)
    outputs = len(standard[0])
    supports = {size: all_groups(features, size) for size in range(min(degree, features) + 1)}
    keys = {size: group_keys(groups, features) for size, groups in supports.items()}
    found: dict[tuple[int, ...], Tensor] = {(): standard[0][:, None].clone()}
    for n in range(1, degree + 1):
        for exponents in _compositions(n, min(n, features)):
            groups = supports[len(exponents)]
            columns = torch.repeat_interleave(groups, torch.tensor(exponents), dim=1)
            index: tuple[slice | Tensor, ...] = (slice(None), *columns.unbind(1))
            orders = math.factorial(n) / math.prod(math.factorial(exponent) for exponent in exponents)
            values = orders * standard[n][index]  # coefficients of z_i^e_i z_j^e_j ..., of shape (out, groups)
            for lower in itertools.product(*(range(exponent, -1, steps) for exponent in exponents)):
                weight = math.prod(
                    to_orthogonal[groups[:, axis], exponent, k]
                    for axis, (exponent, k) in enumerate(zip(exponents, lower, strict=True))
                )
                kept = [axis for axis, k in enumerate(lower) if k > 0]
                name = tuple(k for k in lower if k > 0)
                target = found.setdefault(name, torch.zeros(outputs, len(supports[len(name)]), dtype=torch.float64))
                rows = torch.searchsorted(keys[len(name)], group_keys(groups[:, kept], features))
                target.index_add_(1, rows, values * weight)
    parts = {
        size: torch.zeros(outputs, len(groups), dtype=torch.float64) for size, groups in supports.items() if size > 0
    }
    for name, coefficients in found.items():
        if name:
            groups = supports[len(name)]
            norm = math.prod(norms[groups[:, axis], k] for axis, k in enumerate(name))
            parts[len(name)] += coefficients.square() * norm
    return Interactions(found[()][:, 0], parts, {size: supports[size] for size in parts}, features)


def _one_for_each(marginals: Marginal | Sequence[Marginal] | Tensor | None, features: int) -> list[Marginal]:
    if isinstance(marginals, Tensor):
        (data,) = check_inputs(marginals)
        if data.ndim < 2 or data[0].numel() != features:
            raise ValueError(f"data as marginals must have {features} numbers a row, got shape {tuple(data.shape)}")
        return [Empirical(column) for column in data.detach().cpu().double().flatten(1).T]
    if marginals is None or isinstance(marginals, (Uniform, Normal)):
        return [marginals or Uniform()] * features
    each: list[Marginal] = list(marginals) if isinstance(marginals, Iterable) else [marginals]
    if not all(isinstance(marginal, (Uniform, Normal)) for marginal in each):
        raise TypeError(
            f"a marginal is Uniform(...) or Normal(...), for which indices are exact, one for all or one for each "
            f"input; got {marginals!r}"
        )
    if len(each) != features:
        raise ValueError(f"{features} inputs need one marginal or as many, got {len(each)}")
    return each


def _standardize(tensors: list[Tensor], marginals: list[Marginal]) -> list[Tensor]:
    """Coefficients in the standardised inputs x, where z = center + scale * x."""
    center, scale = torch.tensor([marginal.center_and_scale for marginal in marginals], dtype=torch.float64).T
    out = []
    for m in range(len(tensors)):
        total = torch.zeros_like(tensors[m])
        for n in range(m, len(tensors)):
            term = tensors[n]
            for _ in range(n - m):
                term = term @ center
            total = total + math.comb(n, m) * term
        for axis in range(m):
            total = total * scale.reshape(-1, *(1,) * (m - 1 - axis))
        out.append(total)
    return out


def _basis_change(marginals: list[Marginal], degree: int) -> tuple[Tensor, Tensor]:
    """For every input, x^e as a sum over k of monic orthogonal polynomials p_k, and the squared norms of these."""
    change = torch.zeros(len(marginals), degree + 1, degree + 2, dtype=torch.float64)
    norms = torch.ones(len(marginals), degree + 1, dtype=torch.float64)
    change[:, 0, 0] = 1
    shift, below = torch.tensor(
        [marginal.recurrence(degree + 1) for marginal in marginals], dtype=torch.float64
    ).unbind(2)
    for e in range(degree):
        for k in range(degree + 1):
            change[:, e + 1, k] = below[:, k + 1] * change[:, e, k + 1] + shift[:, k] * change[:, e, k]
            if k:
                change[:, e + 1, k] += change[:, e, k - 1]
    for k in range(1, degree + 1):
        norms[:, k] = norms[:, k - 1] * below[:, k]
    return change, norms


def all_groups(features: int, size: int) -> Tensor:
    """The groups of a size, of shape (groups, size)."""
    if size == 0:
        return torch.zeros(1, 0, dtype=torch.long)
    return torch.combinations(torch.arange(features), size).reshape(-1, size)


def group_keys(groups: Tensor, features: int) -> Tensor:
    """A number for every group that grows in lexicographic order."""
    key = torch.zeros(len(groups), dtype=torch.long)
    for axis in range(groups.shape[1]):
        key = key * features + groups[:, axis]
    return key


def _compositions(n: int, most: int) -> Iterator[tuple[int, ...]]:
    """The ways to write n as an ordered sum of at most ``most`` positive numbers."""
    for parts in range(1, most + 1):
        for cuts in itertools.combinations(range(1, n), parts - 1):
            yield tuple(end - start for start, end in itertools.pairwise((0, *cuts, n)))
