"""Sums over groups of rows: the sparse matrices of a mesh, applied to one sample at a time."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Bags", "transposed_bags"]


class Bags(NamedTuple):
    """A sparse matrix by rows: row i sums ``weights[j] * x[rows[j]]`` for j from ``starts[i]`` to the next start."""

    rows: Tensor
    starts: Tensor
    weights: Tensor | None = None

    def sum(self, x: Tensor) -> Tensor:
        """The product with the rows of ``x``, (rows, features).

        >>> Bags(torch.tensor([0, 1, 1]), torch.tensor([0, 2])).sum(torch.tensor([[1.0], [10.0]]))
        tensor([[11.], [10.]])
        """
        return F.embedding_bag(self.rows, x, self.starts, mode="sum", per_sample_weights=self.weights)

    def repeated(self, times: int, size: int) -> Bags:
        """The block-diagonal matrix of several of these; ``size`` is how many rows of ``x`` each of them has."""
        if times == 1:
            return self
        number = torch.arange(times, device=self.rows.device)[:, None]
        return Bags(
            (number * size + self.rows).flatten(),
            (number * len(self.rows) + self.starts).flatten(),
            None if self.weights is None else self.weights.repeat(times),
        )

    def first(self, some: int, times: int) -> Bags:
        """Some of the blocks that :meth:`repeated` has made."""
        if some == times:
            return self
        end = len(self.rows) // times * some
        weights = None if self.weights is None else self.weights[:end]
        return Bags(self.rows[:end], self.starts[: len(self.starts) // times * some], weights)


def transposed_bags(columns: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The transpose of the matrix that takes row ``columns[i]`` of its input for row i of its output.

    Args:
        columns: For each output its input; those from ``count`` on are left out.
        count: How many inputs there are.

    Returns:
        The rows and starts of a :class:`Bags` with a row for each input: the outputs it went to.
    """
    order = torch.argsort(columns, stable=True)
    sizes = torch.bincount(columns, minlength=count)[:count]
    return order[: int(sizes.sum())].contiguous(), sizes.cumsum(0) - sizes
