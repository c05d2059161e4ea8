"""Which pairs of inputs a polynomial classifier multiplies: the strongest components of its terms of degree 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets.report import COLORS, new_figure

__all__ = ["PairTerms", "pair_figure", "strongest_pairs"]

_PRECISION = 1e-3  # relative error of the eigenvalues, enough for a picture


@dataclass(frozen=True, eq=False)
class PairTerms:
    """Components of the terms of degree 2, the strongest for each class and the strongest against it.

    They sum to ``z C z``; a component contributes ``value * (vector @ z)**2`` to the score of its class over the mean
    score of all classes.

    Attributes:
        values: (classes, 2): the largest and the smallest eigenvalue of C.
        vectors: (classes, 2, elements of an input), of unit length.
    """

    values: Tensor
    vectors: Tensor


def strongest_pairs(network: nn.Module, shape: tuple[int, ...], classes: int) -> PairTerms:
    """The terms of degree 2 are half the second derivative at 0, which is multiplied with vectors and never formed.

    Args:
        network: A polynomial, in evaluation mode.
        shape: The shape of one input.
        classes: Its outputs; each is compared with their mean.
    """
    linalg = require("scipy.sparse.linalg", extra="train")
    origin = torch.zeros(1, *shape)
    size = origin.numel()
    values, vectors = torch.zeros(classes, 2), torch.zeros(classes, 2, size)
    start = numpy.random.default_rng(0).standard_normal(size)  # the same picture for the same weights
    for number in range(classes):

        def score(z: Tensor, number: int = number) -> Tensor:
            outputs = network(z)[0]
            return outputs[number] - outputs.mean()

        slope = torch.func.grad(score)

        def times(vector: Any, slope: Any = slope) -> Any:
            direction = torch.as_tensor(vector, dtype=origin.dtype).reshape(origin.shape)
            product = torch.func.jvp(slope, (origin,), (direction,))[1]
            return product.detach().flatten().double().numpy() / 2

        operator = linalg.LinearOperator((size, size), matvec=times, dtype="float64")
        found, directions = linalg.eigsh(operator, k=2, which="BE", v0=start, tol=_PRECISION)
        order = found.argsort()[::-1].copy()
        values[number] = torch.as_tensor(found[order])
        vectors[number] = torch.as_tensor(directions[:, order].T.copy())
    return PairTerms(values, vectors)


def pair_figure(found: PairTerms, shape: tuple[int, ...], classes: tuple[str, ...]) -> Any:
    """A column for each class, above the component for it and below the one against it; one colour scale for all."""
    count = len(classes)
    figure, axes = new_figure(max(1.05 * count, 4), 3.0, nrows=2, ncols=count, squeeze=False)
    scale = float((found.values.abs().sqrt().unsqueeze(2) * found.vectors).abs().max())
    for column, name in enumerate(classes):
        for row in (0, 1):
            value, axis = float(found.values[column, row]), axes[row, column]
            image = (abs(value) ** 0.5 * found.vectors[column, row]).reshape(shape).mean(0)
            axis.imshow(image.numpy(), cmap="RdBu_r", vmin=-scale, vmax=scale)
            axis.set(xticks=[], yticks=[])
            axis.set_xlabel(f"{value:+.2g}", fontsize=8, color=COLORS[0 if value > 0 else 1])
        axes[0, column].set_title(name, fontsize=9)
    for row, label in enumerate(("for it", "against it")):
        axes[row, 0].set_ylabel(label, fontsize=9)
    return figure
