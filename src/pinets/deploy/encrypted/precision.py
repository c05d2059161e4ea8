"""How far outputs can be off: from which inputs noise grows most, and the largest of thousands of errors."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from pinets.deploy.encrypted.backend import Vector
from pinets.deploy.encrypted.circuit import Affine, Circuit

__all__ = ["largest_error", "outputs_and_noise"]

_RISK = 0.01  # that one of the errors is larger all the same
_MANY = 16  # repetitions whose mean is about normal


def outputs_and_noise(circuit: Circuit, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs for a batch, and the variance of their noise where every step adds noise of variance one.

    Noise of different factors counts as independent, which is good enough to tell which inputs are the hardest.
    """
    values, variances = [inputs], [torch.ones_like(inputs)]

    def affine(form: Affine) -> tuple[Tensor, Tensor]:
        out = form(values)
        variance = torch.ones_like(out)
        for value, matrix in form.terms.items():
            variance = variance + variances[value] @ matrix.square().T
        return out, variance

    for product in circuit.products:
        value, variance = affine(product.factors[0])
        for factor in product.factors[1:]:
            other, more = affine(factor)
            value, variance = value * other, variance * other.square() + more * value.square() + 1
        values.append(value)
        variances.append(variance)
    return affine(circuit.output)


def largest_error(errors: Vector, count: int, repetitions: int) -> float:
    """What the largest of many errors stays below.

    Rounding errors are multiplied by the secret, which differs from slot to slot. So over all slots they are no normal
    but Laplace distributed, with many more large ones, unless an output is the mean of many slots.

    Args:
        errors: Of the same inputs with different noise, with the shape (times, inputs, outputs).
        count: Of how many the largest is asked.
        repetitions: The slots whose mean an output is.
    """
    deviation = float(np.sqrt(np.square(errors).mean(0)).max())
    chance = _RISK / count
    if repetitions >= _MANY:
        return deviation * NormalDist().inv_cdf(1 - chance / 2)
    return deviation * -math.log(chance) / math.sqrt(2)
